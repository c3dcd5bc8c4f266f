// Kernels whose cost depends on reuse: registers, L1, L2 and shared memory.

extern "C" {

// y = a x + y. The compiler must assume that y may overlap x.
__global__ void axpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

// With __restrict__ x is known to be read-only: LDG.E.CONSTANT, and the compiler may move the load past
// stores. Requests, sectors and bytes stay as they are.
__global__ void axpy_restrict(const float* __restrict__ x, float* __restrict__ y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

// C = A B, n x n, one element a thread, every operand from global memory.
__global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= n || col >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) {
    sum += a[row * n + k] * b[k * n + col];
  }
  c[row * n + col] = sum;
}

// The same through 32 x 32 tiles in shared memory; n is a multiple of 32.
__global__ void matmul_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  __shared__ float tile_a[32][32], tile_b[32][32];
  int x = threadIdx.x, y = threadIdx.y;
  int col = blockIdx.x * 32 + x;
  int row = blockIdx.y * 32 + y;
  float sum = 0.0f;
  for (int k0 = 0; k0 < n; k0 += 32) {
    tile_a[y][x] = a[row * n + k0 + x];
    tile_b[y][x] = b[(k0 + y) * n + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

// 5-point stencil over the interior: five reads a point, four of them hit.
__global__ void stencil5(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || x >= cols - 1 || y < 1 || y >= rows - 1) return;
  int i = y * cols + x;
  out[i] = 0.2f * (in[i] + in[i - 1] + in[i + 1] + in[i - cols] + in[i + cols]);
}

// A thread sums a row: lanes are a row apart, and L1 must keep a line until its 32 words are used.
__global__ void row_sums(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int col = 0; col < cols; ++col) {
    sum += in[(long long)row * cols + col];
  }
  out[row] = sum;
}

// A thread sums a column: coalesced.
__global__ void column_sums(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float sum = 0.0f;
  for (int row = 0; row < rows; ++row) {
    sum += in[(long long)row * cols + col];
  }
  out[col] = sum;
}

// Tree reduction of blockDim.x floats, neighbours first: the active threads spread out, and so do their
// banks (2-way, 4-way ... conflicts).
__global__ void reduce_strided(const float* __restrict__ in, float* __restrict__ out) {
  extern __shared__ float partial[];
  int thread = threadIdx.x;
  partial[thread] = in[blockIdx.x * blockDim.x + thread];
  __syncthreads();
  for (int stride = 1; stride < blockDim.x; stride *= 2) {
    int i = 2 * stride * thread;
    if (i < blockDim.x) {
      partial[i] += partial[i + stride];
    }
    __syncthreads();
  }
  if (thread == 0) out[blockIdx.x] = partial[0];
}

// The same tree with sequential addressing: the first threads work on neighbouring words, no conflict.
__global__ void reduce_sequential(const float* __restrict__ in, float* __restrict__ out) {
  extern __shared__ float partial[];
  int thread = threadIdx.x;
  partial[thread] = in[blockIdx.x * blockDim.x + thread];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half) {
      partial[thread] += partial[thread + half];
    }
    __syncthreads();
  }
  if (thread == 0) out[blockIdx.x] = partial[0];
}

// Each CTA reads its own `n` vectors `passes` times: whether the later passes hit depends on how much of
// the 256 KB (H200) the shared carve-out leaves to L1.
__global__ void read_again(const float4* __restrict__ in, float* __restrict__ out, int n, int passes) {
  const float4* mine = in + (long long)blockIdx.x * n;
  float sum = 0.0f;
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll 4
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      float4 value = mine[i];
      sum += (value.x + value.y) + (value.z + value.w);
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // extern "C"
