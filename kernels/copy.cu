// Copies and walks: how 32 lanes' addresses fall into 32-byte sectors.
// Every kernel moves one element per thread; only the address changes.

extern "C" {

// 32 lanes read 128 consecutive bytes: 4 sectors a request, all useful.
__global__ void copy(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// The same with 16 bytes a lane: 16 sectors a request, all useful.
__global__ void copy_float4(const float4* __restrict__ in, float4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// The bandwidth test: one read, one multiplication, one write.
__global__ void scale(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 2.0f;
}

// Lanes are `stride` floats apart.
__global__ void copy_strided(const float* __restrict__ in, float* __restrict__ out, int stride, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[(long long)i * stride];
}

// Reads start `offset` floats past the buffer's aligned base.
__global__ void copy_offset(const float* __restrict__ in, float* __restrict__ out, int offset, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i + offset];
}

// A square matrix read along its rows. `col` comes from threadIdx.x, so neighbouring lanes read
// neighbouring floats: this is the coalesced walk.
__global__ void row_walk(const float* __restrict__ data, float* __restrict__ out, int width) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < width && col < width) out[row * width + col] = data[row * width + col];
}

// The same matrix read along its columns: neighbouring lanes are a row apart, each in a line of its own.
__global__ void column_walk(const float* __restrict__ data, float* __restrict__ out, int width) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < width && col < width) out[row * width + col] = data[col * width + row];
}

}  // extern "C"
