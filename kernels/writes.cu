// Stores: partly written sectors, random places, lines shared between CTAs.

extern "C" {

// A store every `stride` floats. A sector that is written only in part is read from DRAM first; padding every
// thread's word to a line of its own (stride 32) makes 32 such sectors a request instead of 4 whole ones.
__global__ void write_strided(float* __restrict__ out, int stride, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[(long long)i * stride] = (float)i;
}

// A store to a place that a table gives.
__global__ void scatter(const float* __restrict__ in, const int* __restrict__ where, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int place = where[i];
    out[place] = in[i];
  }
}

// Each CTA leaves one word. With spacing 1, 32 CTAs write into one line and L2 merges their words; with
// spacing 32 every word has a line of its own ("against false sharing"), which costs sectors.
__global__ void write_per_cta(float* __restrict__ out, int spacing) {
  if (threadIdx.x == 0) out[(long long)blockIdx.x * spacing] = (float)blockIdx.x;
}

}  // extern "C"
