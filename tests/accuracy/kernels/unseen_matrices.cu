// Matrices: products tiled in other ways, bands, distances, small factorisations, counts in large shared memory.
#include <cuda_fp16.h>

extern "C" {

// 128 x 128 tiles, 8 x 8 results a thread, float4 loads, the next tiles in registers while these are used.
__global__ void __launch_bounds__(256) sgemm128(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n, int depth) {
  __shared__ float as[2][8][128], bs[2][8][128];
  int t = threadIdx.x, tx = t & 15, ty = t >> 4;
  const float* pa = a + (size_t)(blockIdx.y * 128 + (t >> 1)) * depth + (t & 1) * 4;
  const float* pb = b + (size_t)(t >> 5) * n + blockIdx.x * 128 + (t & 31) * 4;
  float acc[8][8] = {};
  float4 va = *reinterpret_cast<const float4*>(pa), vb = *reinterpret_cast<const float4*>(pb);
  int use = 0, ar = t >> 1, ak = (t & 1) * 4;
  for (int k0 = 0;; k0 += 8) {
    as[use][ak][ar] = va.x; as[use][ak + 1][ar] = va.y; as[use][ak + 2][ar] = va.z; as[use][ak + 3][ar] = va.w;
    *reinterpret_cast<float4*>(&bs[use][t >> 5][(t & 31) * 4]) = vb;
    __syncthreads();
    if (k0 + 8 < depth) {
      va = *reinterpret_cast<const float4*>(pa + k0 + 8);
      vb = *reinterpret_cast<const float4*>(pb + (size_t)(k0 + 8) * n);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      float x[8], y[8];
      *reinterpret_cast<float4*>(x) = *reinterpret_cast<float4*>(&as[use][k][ty * 4]);
      *reinterpret_cast<float4*>(x + 4) = *reinterpret_cast<float4*>(&as[use][k][64 + ty * 4]);
      *reinterpret_cast<float4*>(y) = *reinterpret_cast<float4*>(&bs[use][k][tx * 4]);
      *reinterpret_cast<float4*>(y + 4) = *reinterpret_cast<float4*>(&bs[use][k][64 + tx * 4]);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[i][j] += x[i] * y[j];
    }
    if (k0 + 8 >= depth) break;
    use ^= 1;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float* p = c + (size_t)(blockIdx.y * 128 + (i >> 2) * 64 + ty * 4 + (i & 3)) * n + blockIdx.x * 128 + tx * 4;
    *reinterpret_cast<float4*>(p) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
    *reinterpret_cast<float4*>(p + 64) = make_float4(acc[i][4], acc[i][5], acc[i][6], acc[i][7]);
  }
}

// 32 x 32 tiles of doubles, 2 x 2 results a thread of 16 x 16.
__global__ void dgemm32(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ c, int n) {
  __shared__ double as[32][17], bs[16][33];
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
  double acc[2][2] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    for (int i = t; i < 512; i += 256) {
      as[i >> 4][i & 15] = a[(size_t)(blockIdx.y * 32 + (i >> 4)) * n + k0 + (i & 15)];
      bs[i >> 5][i & 31] = b[(size_t)(k0 + (i >> 5)) * n + blockIdx.x * 32 + (i & 31)];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) acc[i][j] += as[ty + 16 * i][k] * bs[k][tx + 16 * j];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) c[(size_t)(blockIdx.y * 32 + ty + 16 * i) * n + blockIdx.x * 32 + tx + 16 * j] = acc[i][j];
}

// Products of many 16 x 16 matrices of halves, a block of 128 threads four of them.
__global__ void batched16(const __half2* __restrict__ a, const __half2* __restrict__ b, __half2* __restrict__ c, int matrices) {
  __shared__ __half2 as[4][16][8], bs[4][16][8];
  int m = threadIdx.x >> 5, lane = threadIdx.x & 31;
  size_t at = ((size_t)blockIdx.x * 4 + m) * 128;
  if (blockIdx.x * 4 + m >= matrices) return;
#pragma unroll
  for (int i = lane; i < 128; i += 32) {
    as[m][i >> 3][i & 7] = a[at + i];
    bs[m][i >> 3][i & 7] = b[at + i];
  }
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 128; i += 32) {
    int row = i >> 3, col = i & 7;
    __half2 s = __float2half2_rn(0.0f);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      __half2 x = as[m][row][k];
      s = __hfma2(__low2half2(x), bs[m][2 * k][col], s);
      s = __hfma2(__high2half2(x), bs[m][2 * k + 1][col], s);
    }
    c[at + i] = s;
  }
}

// y = A x in halves, a block of two warps a row, 16 B loads, sums in float.
__global__ void hgemv(const uint4* __restrict__ a, const uint4* __restrict__ x, __half* __restrict__ y, int cols8) {
  __shared__ float part;
  float s = 0.0f;
  for (int i = threadIdx.x; i < cols8; i += 64) {
    uint4 u = __ldcs(a + (size_t)blockIdx.x * cols8 + i), v = x[i];
    const __half2 *p = reinterpret_cast<const __half2*>(&u), *q = reinterpret_cast<const __half2*>(&v);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float2 f = __half22float2(__hmul2(p[k], q[k]));
      s += f.x + f.y;
    }
  }
  for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
  if (threadIdx.x == 32) part = s;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = __float2half(s + part);
}

// Banded matrix by diagonals.
__global__ void banded_product(const float* __restrict__ data, const int* __restrict__ offsets, const float* __restrict__ x, float* __restrict__ y, int diagonals, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float s = 0.0f;
  for (int d = 0; d < diagonals; ++d) {
    int col = row + offsets[d];
    if (col >= 0 && col < n) s += data[(size_t)d * n + row] * x[col];
  }
  y[row] = s;
}

// Squared distances of queries and references of 16 numbers, references in shared memory, 64 a block.
__global__ void distances(const float4* __restrict__ queries, const float4* __restrict__ references, float* __restrict__ out, int nq, int nr) {
  __shared__ float4 r[64][4];
  int first = blockIdx.y * 64;
  for (int i = threadIdx.x; i < 256; i += blockDim.x) r[i >> 2][i & 3] = references[(size_t)first * 4 + i];
  __syncthreads();
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= nq) return;
  float4 v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = queries[(size_t)q * 4 + k];
  for (int j = 0; j < 64; ++j) {
    float s = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float4 o = r[j][k];
      float a = v[k].x - o.x, b = v[k].y - o.y, c = v[k].z - o.z, d = v[k].w - o.w;
      s += a * a + b * b + c * c + d * d;
    }
    out[(size_t)(first + j) * nq + q] = s;
  }
}

// Cholesky factors of many 32 x 32 matrices, a warp a matrix in shared memory, a column a step.
__global__ void cholesky32(const float* __restrict__ in, float* __restrict__ out, int matrices) {
  extern __shared__ float tiles[];
  int m = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (m >= matrices) return;
  float* s = tiles + (threadIdx.x >> 5) * 32 * 33;
  for (int i = 0; i < 32; ++i) s[i * 33 + lane] = in[(size_t)m * 1024 + i * 32 + lane];
  __syncwarp();
  for (int k = 0; k < 32; ++k) {
    float root = rsqrtf(s[k * 33 + k]), l = s[lane * 33 + k] * root;
    __syncwarp();
    if (lane >= k) s[lane * 33 + k] = l;
    __syncwarp();
    for (int j = k + 1; j <= lane; ++j) s[lane * 33 + j] -= l * s[j * 33 + k];
    __syncwarp();
  }
  for (int i = 0; i < 32; ++i) out[(size_t)m * 1024 + i * 32 + lane] = lane <= i ? s[i * 33 + lane] : 0.0f;
}

// A histogram of 32768 bins in 128 KB of shared memory, a block an SM.
__global__ void histogram_large(const unsigned short* __restrict__ in, unsigned* __restrict__ bins, int n) {
  extern __shared__ unsigned own[];
  for (int i = threadIdx.x; i < 32768; i += blockDim.x) own[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(own + in[i], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 32768; i += blockDim.x)
    if (own[i]) atomicAdd(bins + i, own[i]);
}

// Each thread sorts 16 numbers of its own by insertion, in local memory.
__global__ void sort_own(const int* __restrict__ in, int* __restrict__ out, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  int v[16];
  for (int i = 0; i < 16; ++i) {
    int x = in[i * n + t], j = i;
    while (j > 0 && v[j - 1] > x) {
      v[j] = v[j - 1];
      --j;
    }
    v[j] = x;
  }
  for (int i = 0; i < 16; ++i) out[i * n + t] = v[i];
}

// A matrix in blocks of 32 columns to another order of its four indices: [a, b, c, d] to [d, b, c, a].
__global__ void permute_ends(const float* __restrict__ in, float* __restrict__ out, int na, int middle, int nd) {
  __shared__ float tile[32][33];
  int a0 = blockIdx.y * 32, d0 = blockIdx.x * 32, m = blockIdx.z;
  for (int k = threadIdx.y; k < 32; k += 16)
    if (a0 + k < na && d0 + threadIdx.x < nd) tile[k][threadIdx.x] = in[((size_t)(a0 + k) * middle + m) * nd + d0 + threadIdx.x];
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += 16)
    if (d0 + k < nd && a0 + threadIdx.x < na) out[((size_t)(d0 + k) * middle + m) * na + a0 + threadIdx.x] = tile[threadIdx.x][k];
}
}

// Sums of columns' products with a vector, tiles of the matrix fetched by asynchronous copies two deep.
template <int ROWS>
__global__ void column_products(const float4* __restrict__ a, const float* __restrict__ x, float4* __restrict__ y, int cols4, int rows) {
  __shared__ float4 tile[2][ROWS][64];
  int col = blockIdx.x * 64 + threadIdx.x, first = blockIdx.y * rows;
  float4 s = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  auto fetch = [&](int stage, int row) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
      unsigned to = (unsigned)__cvta_generic_to_shared(&tile[stage][k][threadIdx.x]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(a + (size_t)(row + k) * cols4 + col));
    }
    asm volatile("cp.async.commit_group;");
  };
  fetch(0, first);
  for (int r = 0; r < rows; r += ROWS) {
    int stage = r / ROWS & 1;
    if (r + ROWS < rows) {
      fetch(stage ^ 1, first + r + ROWS);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
      float4 v = tile[stage][k][threadIdx.x];
      float f = x[first + r + k];
      s.x += v.x * f;
      s.y += v.y * f;
      s.z += v.z * f;
      s.w += v.w * f;
    }
  }
  y[(size_t)blockIdx.y * cols4 + col] = s;
}
