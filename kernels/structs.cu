// One field out of an array of 16-byte structs against the same field in an array of its own.

struct __align__(16) Particle {
  float x, y, z, mass;
};

extern "C" {

// 32 lanes span 512 bytes to use 128 of them: 16 sectors a request.
__global__ void array_of_structs(const Particle* __restrict__ particles, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = particles[i].x;
}

// 4 sectors a request.
__global__ void struct_of_arrays(const float* __restrict__ x, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i];
}

}  // extern "C"
