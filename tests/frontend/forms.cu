// Small kernels that between them use the operand forms the front end must decode.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

__constant__ float coefficients[16] = {1.0f, 2.0f, 3.0f};
__device__ int counter;
__device__ int table[4] = {10, 20, 30, 40};
__device__ int* second = table + 1;

template <int N>
__global__ void scale(float* out, const float* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * N + 0.1f;
}

namespace shapes {
struct Point {
    float a, b;
    int c[3];
};
template <typename T, int K>
__global__ void pick(T* out, Point p) {
    out[threadIdx.x] = (T)(p.a * p.c[threadIdx.x % 3] + K);
}
}  // namespace shapes

__global__ void mixed(int* a, char b, double c, short d) { a[threadIdx.x] = b + (int)c + d; }

extern "C" {

__global__ void loops(float* out, const float* in, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (in[i] < 0) continue;
        if (in[i] > 1e9f) break;
        sum += in[i] / 3.7f;
    }
    out[threadIdx.x] = sum / n;
}

__global__ void divisions(int* out, const int* in, int d, long long* wide, long long e, unsigned m) {
    int t = threadIdx.x;
    out[t] = in[t] / d + in[t] % 7;
    wide[t] = wide[t] / e;
    wide[t + 32] = (unsigned)in[t] % m;
}

__global__ void tile(float* out, const float* in, int n) {
    __shared__ float s[32][33];
    extern __shared__ float dynamic[];
    s[threadIdx.y][threadIdx.x] = in[threadIdx.y * n + threadIdx.x];
    dynamic[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.y * n + threadIdx.x] = s[threadIdx.x][threadIdx.y] + dynamic[31 - threadIdx.x];
}

__global__ void local_array(int* out, const int* in, int k) {
    int a[64];
    for (int i = 0; i < 64; i++) a[i] = in[i * 32 + threadIdx.x];
    for (int i = 0; i < k; i++) a[(a[i & 63] + i) & 63] ^= i;
    out[threadIdx.x] = a[k & 63];
}

__global__ void switches(int* out, const int* in) {
    int t = threadIdx.x, v = in[t], r = 0;
    switch (v) {
        case 0: r = in[v + 1] * 3; break;
        case 1: r = v - __ldg(in + 77); break;
        case 2: out[5] = 7; break;
        case 3: r = in[3] / 5; break;
        case 4: r = __popc(v + t); break;
        case 5: r = atomicAdd(out, 4); break;
        case 6: r = t << v; break;
        case 7: r = 99 + out[9]; break;
        case 8: r = __clz(in[88]); break;
        default: r = -1;
    }
    out[t] = r;
}

__global__ void constants(float* out, int i) {
    out[threadIdx.x] = coefficients[(threadIdx.x + i) & 15] + table[i & 3] + *second;
    atomicAdd(&counter, i);
}

__global__ void doubles(double* out, const double* in, double k) {
    int t = threadIdx.x;
    out[t] = fma(in[t], k, 1.5) + sqrt(in[t]) / 0.1;
    out[t + 64] = fmax(in[t], -3.25e10) * (t > 4 ? 2.0 : k);
    if (in[t] > 1e-3) out[t] = (float)in[t] + (int)in[t];
}

__global__ void halves(__half2* out, const __half2* in, __half k, __nv_bfloat162* b) {
    int t = threadIdx.x;
    __half2 v = in[t];
    out[t] = __hfma2(v, __half2(k, k), __float2half2_rn(0.37f));
    float f = __half2float(v.x) + 1.f;
    out[t + 32] = __floats2half2_rn(f, f * 2);
    out[t + 64] = h2exp(v);
    out[t + 96] = __hmax2(v, __floats2half2_rn(-0.1f, 4.0f));
    if (__hgt(v.x, __float2half(0.2f))) out[t + 128] = v;
    b[t] = __hfma2(b[t], __float2bfloat162_rn(1.5f), __float2bfloat162_rn(f));
}

__global__ void async_copy(float4* out, const float4* in) {
    __shared__ float4 s[128];
    unsigned a = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;\n"
        "cp.async.ca.shared.global [%0+512], [%1+512], 4;\n"
        "cp.async.commit_group;\n"
        "cp.async.wait_group 0;" ::"r"(a), "l"(in + threadIdx.x));
    __syncthreads();
    out[threadIdx.x] = s[127 - threadIdx.x];
}

__global__ void matrices(unsigned* out, const unsigned* in) {
    __shared__ unsigned s[1024];
    for (int i = threadIdx.x; i < 1024; i += 32) s[i] = in[i];
    __syncwarp();
    unsigned a = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 4), r0, r1, r2, r3, d0 = 0, d1 = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(a));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"
                 : "+r"(d0), "+r"(d1) : "r"(r0), "r"(r1), "r"(r2), "r"(r3), "r"(r0), "r"(r1));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1},[%2];" : "=r"(r0), "=r"(r1) : "r"(a));
    out[threadIdx.x] = d0 + d1 + r0 + r1;
}

__global__ void atomics(int* out, float* f, unsigned long long* u, const int* in) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t & 31] = 0;
    __syncthreads();
    atomicAdd(s + in[t], 1);
    atomicMax(s + in[t + 1], 5);
    int o = atomicCAS(s + 3, in[5], 4);
    atomicAdd(f + in[t], 1.5f);
    out[t] = o + atomicExch(out + 7, 3) + atomicCAS(out + in[t], 3, 4);
    atomicAdd(u, 1ull);
    atomicAnd(out + 4, 0xff);
    out[t + 32] = atomicAdd(out + 12, 1);
    __threadfence();
    out[t + 64] = atomicInc((unsigned*)out + 5, 7);
    __syncthreads();
    out[t + 96] = s[t & 31];
    atomicAdd((double*)u + 4, 2.0);
}

__global__ void shuffles(int* out, const int* in) {
    int t = threadIdx.x, v = in[t], p;
    v += __shfl_down_sync(~0u, v, 16);
    v ^= __shfl_xor_sync(~0u, v, 1, 8);
    v += __shfl_sync(~0u, v, v & 31);
    v += __shfl_up_sync(~0u, v, 2, 16);
    out[t] = v + __ballot_sync(~0u, v > 3) + __any_sync(~0u, v == 9) + __all_sync(~0u, v < 1000);
    out[t + 32] = __match_any_sync(~0u, v);
    out[t + 64] = __reduce_add_sync(~0u, v) + __reduce_max_sync(~0u, v) + __activemask();
    out[t + 96] = __match_all_sync(~0u, v, &p) + p;
    if (v > 7) out[t + 128] = __shfl_sync(__activemask(), v, 3);
}
}

__device__ __noinline__ int collatz(int v) {
    int n = 0;
    while (v != 1 && n < 1000) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        n++;
    }
    return n;
}

__device__ __noinline__ float deep(float* p, int n) {
    float a[32], r = 0;
    for (int i = 0; i < 32; i++) a[i] = p[i * n];
    for (int i = 0; i < n; i++) r += a[(i * 7) & 31] + collatz(i + 1);
    return r;
}

__device__ int fibonacci(int n, int* p) {
    if (n < 2) return p[n];
    return fibonacci(n - 1, p) + fibonacci(n - 2, p) * p[n];
}

extern "C" {

__global__ void calls(float* out, int n) { out[threadIdx.x] = collatz(threadIdx.x + 1) + deep(out, n); }

__global__ void recursive(int* out, int n) { out[threadIdx.x] = fibonacci(n, out); }

__global__ void __launch_bounds__(128, 2)
    misc(unsigned* o, const unsigned* in, const uint8_t* b, uint16_t* h, int n, float x) {
    int t = threadIdx.x;
    unsigned v = in[t], sm;
    o[t] = __brev(v) + __ffs(v) + __byte_perm(v, n, 0x5140) + __funnelshift_l(v, n, 5) + b[t] * (int8_t)b[t + 1];
    h[t] = b[t + 3];
    o[t + 128] = (unsigned)clock64() + (unsigned)__dp4a((int)v, n, 3) + __umulhi(v, n) + min((int)v, n) + max(v, 7u);
    o[t + 256] = __float_as_uint(sinf(x) + __expf(x) + rsqrtf(x) + floorf(x) + fabsf(x) + logf(x) + powf(x, 2.7f));
    o[t + 384] = (unsigned)x + (int)x + (unsigned)(unsigned long long)x;
    ((float*)o)[t + 512] = (float)v + (float)(int)v + (float)(long long)v;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    o[t + 640] = sm;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(o + t));
    volatile unsigned* vo = o;
    vo[3] = vo[4];
    __stcs(o + 3, __ldcs(o + 9));
    __stcg(o + 5, __ldcg(o + 6));
    o[n + 777] = (v & 0xff00ff00) | (n ^ ~v);
    ((uint4*)o)[t] = make_uint4(1, 2, v, 1e30f == x);
    ((long long*)o)[t + 999] = (long long)v * n + ((long long)n << 33 >> (v & 63));
    o[2000] = __vadd4(v, n) + __vabsdiffu4(v, n) + __sad(v, n, 3u);
    if (n == 12345) __trap();
}

__global__ void generic(int* a, int w, int k) {
    __shared__ int s[64];
    int l[8];
    l[k & 7] = k;
    s[threadIdx.x] = w;
    __syncthreads();
    int* p = w > 3 ? s : (w < 0 ? l : a);
    p[threadIdx.x & 7] += 2;
    a[threadIdx.x] = p[(threadIdx.x + k) & 7] + __isShared(p) + __isGlobal(p);
}

__global__ void divergent(int* a, int n) {
    int t = threadIdx.x;
    if (t & 1) {
        for (int i = 0; i < (a[t] & 7); i++) {
            if (a[t + i] == n) break;
            __syncwarp();
            a[t] += i;
        }
    } else {
        a[t + 5] -= 3;
    }
    __syncthreads();
    if (t == n) return;
    a[t + 64] = __syncthreads_count(a[t]) + __syncthreads_or(a[t + 1]);
    asm volatile("bar.arrive 1, 64;");
    asm volatile("bar.sync 2, 64;");
}

__global__ void predicates(int* o, const int* a, int n) {
    bool p0 = a[0] > n, p1 = a[1] > n, p2 = a[2] < n, p3 = a[3] == n, p4 = a[4] != n, p5 = a[5] > 2, p6 = a[6] > 3;
    for (int i = 0; i < n; i++) {
        if (p0) o[i] = 1;
        __syncthreads();
        if (p1) o[i + 1] = 2;
        __syncthreads();
        if (p2) o[i + 2] = 3;
        __syncthreads();
        if (p3) o[i + 3] = 4;
        __syncthreads();
        if (p4) o[i + 4] = 5;
        __syncthreads();
        if (p5) o[i + 5] = 6;
        __syncthreads();
        if (p6 && i % 3) o[i + 6] = 7;
        __syncthreads();
    }
}

__global__ void prints(int* o, int n) {
    if (n > 3) printf("%d %f\n", o[0], 1.5f);
}
}
