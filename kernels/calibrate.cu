// Kernels that `warpsim calibrate` measures a GPU with. Times come from clock64 inside one thread, from CUDA events around a launch,
// or from hardware counters; warpsim/calibration.py says which number of a profile each gives.

typedef unsigned long long u64;

// The clock once `value` is there: the trap, which is never taken, needs it.
__device__ __forceinline__ long long after(u64 value) {
    long long now;
    asm volatile("{.reg .pred p; setp.eq.u64 p, %1, 0x123; @p trap;} mov.u64 %0, %%clock64;" : "=l"(now) : "l"(value) : "memory");
    return now;
}

// The clock before what follows: the compiler may move clock64() past loads, but no load over the trap, which needs the clock.
__device__ __forceinline__ long long before() {
    long long now;
    asm volatile("{.reg .pred p; mov.u64 %0, %%clock64; setp.eq.u64 p, %0, 0x123; @p trap;}" : "=l"(now)::"memory");
    return now;
}

// ---- latency: a chain of pointers, one thread, one load at a time ----

#define CHASE(NAME, LOAD) \
    extern "C" __global__ void NAME(const u64 *start, int steps, u64 *out) { \
        u64 at = (u64)start; \
        long long begin = before(); \
        _Pragma("unroll 16") \
        for (int i = 0; i < steps; i++) asm volatile(LOAD " %0, [%0];" : "+l"(at)::"memory"); \
        long long end = after(at); \
        out[0] = (u64)(end - begin); \
        out[1] = at; \
    }
CHASE(chase_l1, "ld.global.ca.u64")
CHASE(chase_l2, "ld.global.cg.u64")

extern "C" __global__ void chase_shared(int steps, u64 *out) {
    __shared__ unsigned chain[1024];
    const unsigned base = (unsigned)__cvta_generic_to_shared(chain);
    for (int i = 0; i < 1024; i++) chain[i] = base + 4 * ((i + 33) % 1024);
    unsigned at = base;
    long long begin = before();
#pragma unroll 16
    for (int i = 0; i < steps; i++) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at)::"memory");
    long long end = after(at);
    out[0] = (u64)(end - begin);
    out[1] = at;
}

// Latency of single L2 hits: CTA k, one an SM, times a chain of 32 loads of each of `lines` lines, which point to themselves; the
// least of `rounds` is kept, in cycles a load. CTAs begin at different lines.
extern "C" __global__ void line_latency(const char *data, int lines, long long stride, int rounds, float *out, unsigned *where) {
    if (threadIdx.x) return;
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    where[blockIdx.x] = sm;
#pragma unroll 1
    for (int i = 0; i < lines; i++) {
        const int line = (i + blockIdx.x * 31) % lines;
        long long least = 1ll << 60;
#pragma unroll 1
        for (int round = 0; round < rounds; round++) {
            u64 at = (u64)(data + line * stride);
            const long long begin = before();
#pragma unroll
            for (int k = 0; k < 32; k++) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
            const long long took = after(at) - begin;
            least = took < least ? took : least;
        }
        out[blockIdx.x * lines + line] = least / 32.0f;
    }
}

extern "C" __global__ void link_self(char *data, int lines, long long stride) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < lines) *(u64 *)(data + i * stride) = (u64)(data + i * stride);
}

// ---- bandwidth of each level ----

__device__ __forceinline__ float fold(float4 v) { return v.x + v.y + v.z + v.w; }

#define READ(NAME, LOAD) \
    extern "C" __global__ void NAME(const float4 *in, float *sink, long long n, int passes) { \
        float sum = 0; \
        const long long step = (long long)gridDim.x * blockDim.x; \
        _Pragma("unroll 1") \
        for (int p = 0; p < passes; p++) { \
            long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; \
            _Pragma("unroll 1") \
            for (; i + 3 * step < n; i += 4 * step) { \
                const float4 a = LOAD(in + i), b = LOAD(in + i + step), c = LOAD(in + i + 2 * step), d = LOAD(in + i + 3 * step); \
                sum += fold(a) + fold(b) + fold(c) + fold(d); \
            } \
            _Pragma("unroll 1") \
            for (; i < n; i += step) sum += fold(LOAD(in + i)); \
        } \
        if (sum == -1.2345e30f) *sink = sum; \
    }
READ(read_l2, __ldcg)
READ(read_dram, __ldg)

// Every CTA reads its own n float4 (a multiple of four times its threads) again and again, through L1.
extern "C" __global__ void read_l1(const float4 *in, float *sink, int n, int passes) {
    float sum = 0;
    const float4 *mine = in + (size_t)blockIdx.x * n;
#pragma unroll 1
    for (int p = 0; p < passes; p++)
#pragma unroll 1
        for (int i = threadIdx.x; i + 3 * blockDim.x < n; i += 4 * blockDim.x) {
            const float4 *at = mine + i;
            const float4 a = __ldca(at), b = __ldca(at + blockDim.x), c = __ldca(at + 2 * blockDim.x), d = __ldca(at + 3 * blockDim.x);
            sum += fold(a) + fold(b) + fold(c) + fold(d);
        }
    if (sum == -1.2345e30f) *sink = sum;
}

extern "C" __global__ void copy(const float4 *in, float4 *out, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
#pragma unroll 1
    for (; i + 3 * step < n; i += 4 * step) {
        const float4 a = __ldg(in + i), b = __ldg(in + i + step), c = __ldg(in + i + 2 * step), d = __ldg(in + i + 3 * step);
        out[i] = a, out[i + step] = b, out[i + 2 * step] = c, out[i + 3 * step] = d;
    }
    for (; i < n; i += step) out[i] = in[i];
}

// Conflict-free loads from shared memory: one wavefront each. They are volatile: plain loads would be taken out of the loop.
extern "C" __global__ void read_shared(float *sink, int loads, u64 *out) {
    __shared__ float words[4096];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = i;
    __syncthreads();
    const unsigned base = (unsigned)__cvta_generic_to_shared(words) + 4 * (threadIdx.x & 31);
    float sum = 0;
    long long begin = before();
#pragma unroll 16
    for (int i = 0; i < loads; i++) {
        float v;
        asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(v) : "r"(base + 128 * (i & 15)));
        sum += v;
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = (u64)(after(0) - begin);
    if (sum == -1.2345e30f) *sink = sum;
}

// Reads at random: each lane a word of a random sector among the first `sectors`.
extern "C" __global__ void gather(const unsigned *in, float *sink, unsigned sectors, int loads) {
    unsigned state = blockIdx.x * blockDim.x + threadIdx.x + 1, sum = 0;
#pragma unroll 1
    for (int i = 0; i < loads; i += 4) {
        unsigned v[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            state = state * 1664525u + 1013904223u;
            const unsigned sector = (unsigned)(((u64)(state ^ state >> 15) * sectors) >> 32);
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[k]) : "l"(in + (size_t)sector * 8));
        }
        sum += v[0] + v[1] + v[2] + v[3];
    }
    if (sum == 0x9e3779b9u && sectors == 0) *sink = sum;
}

// One sector every `stride` bytes: what DRAM reads beyond it is the fetch granule.
extern "C" __global__ void sparse(const char *in, float *sink, long long stride, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = 0;
    if (i < n) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(in + i * stride));
    if (v == 0x9e3779b9u && n == 0) *sink = v;
}

// ---- launch ----

extern "C" __global__ void nothing(int *out) {
    if (out) *out = 1;
}

// ---- bytes in flight: each thread has LOADS independent loads under way ----

template <int LOADS>
__global__ void in_flight(const float *in, float *sink, long long n) {
    float sum = 0;
    const long long step = (long long)gridDim.x * blockDim.x;
#pragma unroll 1
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i + (LOADS - 1) * step < n; i += LOADS * step) {
        float v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(v[k]) : "l"(in + i + k * step));
#pragma unroll
        for (int k = 0; k < LOADS; k++) sum += v[k];
    }
    if (sum == -1.2345e30f) *sink = sum;
}
template __global__ void in_flight<1>(const float *, float *, long long);
template __global__ void in_flight<2>(const float *, float *, long long);
template __global__ void in_flight<4>(const float *, float *, long long);
template __global__ void in_flight<8>(const float *, float *, long long);

// Chains of pointers: link[i] points to the line order[i + 1], `stride` bytes a line.
extern "C" __global__ void link(char *data, const unsigned *order, unsigned n, long long stride) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) *(u64 *)(data + order[i] * stride) = (u64)(data + order[i + 1 == n ? 0 : i + 1] * stride);
}
