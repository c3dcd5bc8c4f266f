// Table-driven replay of single-warp access patterns: one warp a CTA, one instruction of the asked kind per repetition.
//
// A pattern is a base address, 32 scaled offsets, a mask and an operation; up to PATTERNS lie in constant memory, so nothing
// is compiled for a pattern. Offsets are picked with compares from uniform constant loads: neither a table load nor a
// shuffle may touch the pipe that is being counted. The value of every load reaches `sink`, which is a null pointer when
// counting, so that the compiler keeps the load and no store is made. The next repetition's address depends on the value.

#define PATTERNS 400

struct Pattern {
    unsigned offset[32];        // in units of 1 << shift bytes
    unsigned long long base;    // global: address; shared: bytes from the start of dynamic shared memory
    unsigned mask;              // active lanes
    unsigned operation;         // the case labels below
    unsigned repeat;            // how often
    unsigned shift;
    unsigned spare[2];
};

__constant__ Pattern table[PATTERNS];

#define ACCESS(LABEL, ...) case LABEL: { __VA_ARGS__; break; }

__device__ __forceinline__ unsigned perform(unsigned operation, unsigned long long address, unsigned shared, unsigned value) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    unsigned long long wide = value, result = 0;
    unsigned short half = (unsigned short)value;
    switch (operation) {
        // global loads, 1 to 16 bytes
        ACCESS(1, asm volatile("ld.global.u8 %0, [%1];" : "=r"(a) : "l"(address) : "memory"))
        ACCESS(2, asm volatile("ld.global.u16 %0, [%1];" : "=r"(a) : "l"(address) : "memory"))
        ACCESS(3, asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(address) : "memory"))
        ACCESS(4, asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "l"(address) : "memory"))
        ACCESS(5, asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(address) : "memory"))
        // global stores
        ACCESS(6, asm volatile("st.global.u8 [%0], %1;" :: "l"(address), "r"(value) : "memory"))
        ACCESS(7, asm volatile("st.global.u16 [%0], %1;" :: "l"(address), "h"(half) : "memory"))
        ACCESS(8, asm volatile("st.global.u32 [%0], %1;" :: "l"(address), "r"(value) : "memory"))
        ACCESS(9, asm volatile("st.global.v2.u32 [%0], {%1,%1};" :: "l"(address), "r"(value) : "memory"))
        ACCESS(10, asm volatile("st.global.v4.u32 [%0], {%1,%1,%1,%1};" :: "l"(address), "r"(value) : "memory"))
        // shared loads
        ACCESS(11, asm volatile("ld.shared.u8 %0, [%1];" : "=r"(a) : "r"(shared) : "memory"))
        ACCESS(12, asm volatile("ld.shared.u16 %0, [%1];" : "=r"(a) : "r"(shared) : "memory"))
        ACCESS(13, asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(shared) : "memory"))
        ACCESS(14, asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(shared) : "memory"))
        ACCESS(15, asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared) : "memory"))
        // shared stores
        ACCESS(16, asm volatile("st.shared.u8 [%0], %1;" :: "r"(shared), "r"(value) : "memory"))
        ACCESS(17, asm volatile("st.shared.u16 [%0], %1;" :: "r"(shared), "h"(half) : "memory"))
        ACCESS(18, asm volatile("st.shared.u32 [%0], %1;" :: "r"(shared), "r"(value) : "memory"))
        ACCESS(19, asm volatile("st.shared.v2.u32 [%0], {%1,%1};" :: "r"(shared), "r"(value) : "memory"))
        ACCESS(20, asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" :: "r"(shared), "r"(value) : "memory"))
        // global atomics that return the old value: add of 4 and 8 bytes, exchange, compare and swap, float add
        ACCESS(21, asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(a) : "l"(address), "r"(value) : "memory"))
        ACCESS(22, asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(result) : "l"(address), "l"(wide) : "memory"))
        ACCESS(23, asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(a) : "l"(address), "r"(value) : "memory"))
        ACCESS(24, asm volatile("atom.global.cas.b32 %0, [%1], %2, %2;" : "=r"(a) : "l"(address), "r"(value) : "memory"))
        ACCESS(25, asm volatile("{.reg .f32 v, w; mov.b32 v, %2; atom.global.add.f32 w, [%1], v; mov.b32 %0, w;}" : "=r"(a) : "l"(address), "r"(value) : "memory"))
        // global reductions: add of 4 and 8 bytes, float add
        ACCESS(26, asm volatile("red.global.add.u32 [%0], %1;" :: "l"(address), "r"(value) : "memory"))
        ACCESS(27, asm volatile("red.global.add.u64 [%0], %1;" :: "l"(address), "l"(wide) : "memory"))
        ACCESS(28, asm volatile("{.reg .f32 v; mov.b32 v, %1; red.global.add.f32 [%0], v;}" :: "l"(address), "r"(value) : "memory"))
        // shared atomics and reductions
        ACCESS(29, asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(a) : "r"(shared), "r"(value) : "memory"))
        ACCESS(30, asm volatile("red.shared.add.u32 [%0], %1;" :: "r"(shared), "r"(value) : "memory"))
        ACCESS(31, asm volatile("atom.shared.exch.b32 %0, [%1], %2;" : "=r"(a) : "r"(shared), "r"(value) : "memory"))
        ACCESS(32, asm volatile("atom.shared.cas.b32 %0, [%1], %2, %2;" : "=r"(a) : "r"(shared), "r"(value) : "memory"))
        ACCESS(36, asm volatile("atom.shared.exch.b64 %0, [%1], %2;" : "=l"(result) : "r"(shared), "l"(wide) : "memory"))
        // ldmatrix: one, two and four 8x8 matrices; rows from lanes 0-7, 0-15, 0-31
        ACCESS(33, asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(shared) : "memory"))
        ACCESS(34, asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(shared) : "memory"))
        ACCESS(35, asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared) : "memory"))
    }
    return a + b + c + d + (unsigned)result + (unsigned)(result >> 32);
}

// Patterns first, first + 1, ... first + count - 1, dealt out to the CTAs; `zero` is 0, which the compiler cannot know.
extern "C" __global__ void __launch_bounds__(32) replay(unsigned first, unsigned count, unsigned zero, unsigned *sink) {
    extern __shared__ __align__(128) unsigned char window[];
    const unsigned lane = threadIdx.x;
    const unsigned start = (unsigned)__cvta_generic_to_shared(window);
    unsigned sum = zero;
    for (unsigned p = first + blockIdx.x; p < first + count; p += gridDim.x) {
        const Pattern &pattern = table[p];
        unsigned offset = 0;
#pragma unroll
        for (unsigned k = 0; k < 32; k++) offset = lane == k ? pattern.offset[k] : offset;
        const unsigned long long distance = (unsigned long long)offset << pattern.shift;
        const unsigned operation = pattern.operation, repeat = pattern.repeat;
        if (pattern.mask >> lane & 1) {
#pragma unroll 1
            for (unsigned r = 0; r < repeat; r++) {
                const unsigned long long far = distance + (sum & zero);
                sum += perform(operation, pattern.base + far, start + (unsigned)pattern.base + (unsigned)far, sum);
            }
        }
        __syncwarp();
    }
    if (sink) sink[blockIdx.x * 32 + lane] = sum;
}
