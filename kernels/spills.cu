// Register spills: 36 accumulators live across a loop.
// The compiler keeps them in registers where it may use enough (the default), and in local memory under
// --maxrregcount=32.

extern "C" __global__ void spills(const float* __restrict__ in, float* __restrict__ out, int steps, int n) {
  constexpr int LIVE = 36;
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  float value[LIVE];
#pragma unroll
  for (int k = 0; k < LIVE; ++k) value[k] = 0.25f * k;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    float x = in[step * n + thread];
#pragma unroll
    for (int k = 0; k < LIVE; ++k) value[k] = value[k] * x + 0.5f;
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < LIVE; ++k) sum += value[k];
  out[thread] = sum;
}
