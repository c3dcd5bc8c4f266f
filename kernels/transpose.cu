// Matrix transposes: out[x][y] = in[y][x], `in` has `rows` rows of `cols` floats.

// Coalesced reads, but the writes of a warp go to 32 different lines.
extern "C" __global__ void transpose_naive(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < cols && y < rows) {
    float value = in[(long long)y * cols + x];
    out[(long long)x * rows + y] = value;
  }
}

// Through a shared tile with rows of ROW floats: 33 keeps columns free of bank conflicts, 32 does not.
// Blocks are 32 x THREADS_Y threads and move 32 x 32 elements.
template <int ROW, int THREADS_Y = 32>
__global__ void transpose_tiled(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  __shared__ float tile[32][ROW];
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += THREADS_Y) {
    if (x < cols && y + j < rows) {
      tile[threadIdx.y + j][threadIdx.x] = in[(long long)(y + j) * cols + x];
    }
  }
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += THREADS_Y) {
    if (x < rows && y + j < cols) {
      out[(long long)(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
    }
  }
}
