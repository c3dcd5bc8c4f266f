// The workloads on which another simulator's H200 configuration was measured: copies, strides, a gather, shared memory.
extern "C" {

__global__ void copy_words(const float* a, float* b, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) b[i] = a[i];
}

__global__ void copy_vectors(const float4* a, float4* b, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) b[i] = a[i];
}

__global__ void read_stride(const float* a, float* b, int n, int stride) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) b[i] = a[(size_t)i * stride];
}

__global__ void gather_words(const float* a, const int* index, float* b, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) b[i] = a[index[i]];
}

__global__ void shared_words(float* b, int stride, int rounds) {
  __shared__ float s[4096];
  for (int k = threadIdx.x; k < 4096; k += blockDim.x) s[k] = (float)k;
  __syncthreads();
  int at = threadIdx.x * stride & 4095;
  float sum = 0.0f;
  for (int r = 0; r < rounds; ++r) {
    sum += s[at];
    at = (at + 32) & 4095;
  }
  b[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
}
