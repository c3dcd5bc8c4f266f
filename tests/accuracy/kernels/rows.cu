// Reductions, scans and row-wise normalisations.

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

template <bool MAX>
__device__ __forceinline__ float block_reduce(float v) {
  __shared__ float part[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
  v = MAX ? warp_max(v) : warp_sum(v);
  __syncthreads();
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = part[lane < warps ? lane : 0];
  if (!MAX && lane >= warps) v = 0.0f;
  return MAX ? warp_max(v) : warp_sum(v);
}

// A warp a row, the row in registers: 32 * K columns.
template <int K>
__global__ void softmax_warp(const float* __restrict__ in, float* __restrict__ out, int rows) {
  int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (row >= rows) return;
  const float* p = in + (size_t)row * 32 * K;
  float v[K], top = -3.4e38f, sum = 0.0f;
#pragma unroll
  for (int k = 0; k < K; ++k) { v[k] = p[k * 32 + lane]; top = fmaxf(top, v[k]); }
  top = warp_max(top);
#pragma unroll
  for (int k = 0; k < K; ++k) { v[k] = __expf(v[k] - top); sum += v[k]; }
  sum = 1.0f / warp_sum(sum);
#pragma unroll
  for (int k = 0; k < K; ++k) out[(size_t)row * 32 * K + k * 32 + lane] = v[k] * sum;
}

// A block a row, three walks over it: the later two hit caches or not.
extern "C" __global__ void softmax_block(const float* __restrict__ in, float* __restrict__ out, int cols) {
  const float* p = in + (size_t)blockIdx.x * cols;
  float top = -3.4e38f, sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) top = fmaxf(top, p[i]);
  top = block_reduce<true>(top);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += __expf(p[i] - top);
  sum = 1.0f / block_reduce<false>(sum);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[(size_t)blockIdx.x * cols + i] = __expf(p[i] - top) * sum;
}

// float4 a thread, one row a block of cols / 4 threads.
extern "C" __global__ void layernorm(const float4* __restrict__ in, const float4* __restrict__ gamma, const float4* __restrict__ beta, float4* __restrict__ out, int cols) {
  size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = in[at];
  float mean = block_reduce<false>(v.x + v.y + v.z + v.w) / cols;
  v.x -= mean; v.y -= mean; v.z -= mean; v.w -= mean;
  float r = rsqrtf(block_reduce<false>(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w) / cols + 1e-5f);
  float4 g = gamma[threadIdx.x], b = beta[threadIdx.x];
  out[at] = make_float4(v.x * r * g.x + b.x, v.y * r * g.y + b.y, v.z * r * g.z + b.z, v.w * r * g.w + b.w);
}

// Root mean square norm with a residual that is added and kept; the row is read again.
extern "C" __global__ void rmsnorm_add(const float* __restrict__ in, float* __restrict__ residual, const float* __restrict__ gamma, float* __restrict__ out, int cols) {
  size_t row = (size_t)blockIdx.x * cols;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    float v = in[row + i] + residual[row + i];
    residual[row + i] = v;
    sum += v * v;
  }
  float r = rsqrtf(block_reduce<false>(sum) / cols + 1e-6f);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[row + i] = residual[row + i] * r * gamma[i];
}

extern "C" __global__ void reduce_shuffle(const float4* __restrict__ in, float* __restrict__ out, int n) {
  float s = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float4 v = in[i];
    s += (v.x + v.y) + (v.z + v.w);
  }
  s = block_reduce<false>(s);
  if (threadIdx.x == 0) atomicAdd(out, s);
}

// Largest value and its index of each row, ties to the first.
extern "C" __global__ void argmax_rows(const float* __restrict__ in, float* __restrict__ value, int* __restrict__ index, int cols) {
  int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31, where = lane;
  const float* p = in + (size_t)row * cols;
  float top = -3.4e38f;
#pragma unroll 4
  for (int i = lane; i < cols; i += 32) {
    float v = p[i];
    where = v > top ? i : where;
    top = fmaxf(v, top);
  }
#pragma unroll
  for (int d = 16; d; d >>= 1) {
    float v = __shfl_down_sync(~0u, top, d);
    int w = __shfl_down_sync(~0u, where, d);
    where = v > top ? w : where;
    top = fmaxf(v, top);
  }
  if (lane == 0) { value[row] = top; index[row] = where; }
}

// Inclusive scan of a block's elements, four a thread, and the block's total.
extern "C" __global__ void scan_block(const int4* __restrict__ in, int4* __restrict__ out, int* __restrict__ totals) {
  __shared__ int part[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  int4 v = in[at];
  v.y += v.x; v.z += v.y; v.w += v.z;
  int s = v.w;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    int t = __shfl_up_sync(~0u, s, d);
    s += lane >= d ? t : 0;
  }
  if (lane == 31) part[warp] = s;
  __syncthreads();
  int before = 0, warps = blockDim.x >> 5;
  for (int w = 0; w < warps; ++w) before += w < warp ? part[w] : 0;
  int add = s - v.w + before;
  out[at] = make_int4(v.x + add, v.y + add, v.z + add, v.w + add);
  if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = s + before;
}

// Second pass of the scan: each block adds what came before it.
extern "C" __global__ void scan_add(int* __restrict__ data, const int* __restrict__ before, int chunk) {
  int add = before[blockIdx.x];
  for (int i = threadIdx.x; i < chunk; i += blockDim.x) data[(size_t)blockIdx.x * chunk + i] += add;
}

// Kogge-Stone scan in shared memory: a barrier after every step.
extern "C" __global__ void scan_shared(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float a[2][512];
  int t = threadIdx.x, from = 0;
  size_t at = (size_t)blockIdx.x * 512 + t;
  a[0][t] = in[at];
  __syncthreads();
  for (int d = 1; d < 512; d <<= 1) {
    float v = a[from][t];
    if (t >= d) v += a[from][t - d];
    a[from ^ 1][t] = v;
    from ^= 1;
    __syncthreads();
  }
  out[at] = a[from][t];
}
