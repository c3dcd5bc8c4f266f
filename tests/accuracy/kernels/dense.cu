// Tiles, stencils, matrix products, sorting and transform stages.

extern "C" {

__global__ void bitonic_step(float* __restrict__ data, int j, int k) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int low = 2 * t - (t & (j - 1)), high = low + j;
  float a = data[low], b = data[high];
  bool up = (low & k) == 0;
  data[low] = up ? fminf(a, b) : fmaxf(a, b);
  data[high] = up ? fmaxf(a, b) : fminf(a, b);
}

// 2048 elements a block of 1024 threads, sorted in shared memory.
__global__ void bitonic_block(float* __restrict__ data) {
  __shared__ float s[2048];
  float* p = data + (size_t)blockIdx.x * 2048;
  s[threadIdx.x] = p[threadIdx.x];
  s[threadIdx.x + 1024] = p[threadIdx.x + 1024];
  for (int k = 2; k <= 2048; k <<= 1)
    for (int j = k >> 1; j; j >>= 1) {
      __syncthreads();
      int low = 2 * threadIdx.x - (threadIdx.x & (j - 1)), high = low + j;
      float a = s[low], b = s[high];
      bool up = (low & k) == 0;
      s[low] = up ? fminf(a, b) : fmaxf(a, b);
      s[high] = up ? fmaxf(a, b) : fminf(a, b);
    }
  __syncthreads();
  p[threadIdx.x] = s[threadIdx.x];
  p[threadIdx.x + 1024] = s[threadIdx.x + 1024];
}

// One radix-2 stage over an array, partners `span` apart, in place.
__global__ void fft_stage(float2* __restrict__ data, const float2* __restrict__ twiddle, int span) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int k = t & (span - 1), i = 2 * t - k;
  float2 w = twiddle[k], a = data[i], b = data[i + span];
  float2 c = make_float2(b.x * w.x - b.y * w.y, b.x * w.y + b.y * w.x);
  data[i] = make_float2(a.x + c.x, a.y + c.y);
  data[i + span] = make_float2(a.x - c.x, a.y - c.y);
}

// One radix-4 stage out of place (Stockham): reads a quarter apart, writes interleaved.
__global__ void fft_stockham4(const float2* __restrict__ in, float2* __restrict__ out, int span, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, q = n / 4, k = t & (span - 1);
  float2 a = in[t], b = in[t + q], c = in[t + 2 * q], d = in[t + 3 * q];
  float angle = -1.5707963f * k / span, s, co;
  __sincosf(angle, &s, &co);
  b = make_float2(b.x * co - b.y * s, b.x * s + b.y * co);
  c = make_float2(c.x * co - c.y * s, c.x * s + c.y * co);
  d = make_float2(d.x * co - d.y * s, d.x * s + d.y * co);
  float2 e = make_float2(a.x + c.x, a.y + c.y), f = make_float2(a.x - c.x, a.y - c.y);
  float2 g = make_float2(b.x + d.x, b.y + d.y), h = make_float2(b.y - d.y, d.x - b.x);
  int to = (t - k) * 4 + k;
  out[to] = make_float2(e.x + g.x, e.y + g.y);
  out[to + span] = make_float2(f.x + h.x, f.y + h.y);
  out[to + 2 * span] = make_float2(e.x - g.x, e.y - g.y);
  out[to + 3 * span] = make_float2(f.x - h.x, f.y - h.y);
}

// 5 x 5 convolution straight from global memory; weights in a small buffer.
__global__ void conv5_direct(const float* __restrict__ in, const float* __restrict__ weight, float* __restrict__ out, int pitch, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float s = 0.0f;
#pragma unroll
  for (int dy = 0; dy < 5; ++dy)
#pragma unroll
    for (int dx = 0; dx < 5; ++dx) s += weight[dy * 5 + dx] * in[(y + dy) * pitch + x + dx];
  out[y * width + x] = s;
}

__global__ void stencil7(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
  int i = (z * ny + y) * nx + x, plane = nx * ny;
  out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - plane] + in[i + plane]);
}

// The same, marching along z with three planes in registers.
__global__ void stencil7_march(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1, plane = nx * ny;
  if (x >= nx - 1 || y >= ny - 1) return;
  int i = y * nx + x;
  float below = in[i], here = in[i + plane];
  for (int z = 1; z < nz - 1; ++z) {
    i += plane;
    float above = in[i + plane];
    out[i] = 0.4f * here + 0.1f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + below + above);
    below = here;
    here = above;
  }
}

__global__ void upsample2(const float* __restrict__ in, float* __restrict__ out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= 2 * width || y >= 2 * height) return;
  int x0 = max((x - 1) >> 1, 0), y0 = max((y - 1) >> 1, 0), x1 = min(x0 + 1, width - 1), y1 = min(y0 + 1, height - 1);
  float fx = x & 1 ? 0.25f : 0.75f, fy = y & 1 ? 0.25f : 0.75f;
  float top = in[y0 * width + x0] * (1 - fx) + in[y0 * width + x1] * fx;
  float bottom = in[y1 * width + x0] * (1 - fx) + in[y1 * width + x1] * fx;
  out[(size_t)y * 2 * width + x] = top * (1 - fy) + bottom * fy;
}

__global__ void max_pool2(const float2* __restrict__ in, float* __restrict__ out, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  float2 a = in[(size_t)2 * y * width + x], b = in[(size_t)(2 * y + 1) * width + x];
  out[(size_t)y * width + x] = fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y));
}

// Columns of 3 x 3 patches: nine stores a read, of which L1 serves most.
__global__ void im2col3(const float* __restrict__ in, float* __restrict__ out, int pitch, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  size_t plane = (size_t)width * height, at = (size_t)y * width + x;
#pragma unroll
  for (int k = 0; k < 9; ++k) out[k * plane + at] = in[(y + k / 3) * pitch + x + k % 3];
}

// A warp a row, float4 loads; x in L1.
__global__ void matvec_rows(const float4* __restrict__ a, const float4* __restrict__ x, float* __restrict__ y, int cols) {
  int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  const float4* p = a + (size_t)row * cols;
  float s = 0.0f;
#pragma unroll 4
  for (int i = lane; i < cols; i += 32) {
    float4 u = p[i], v = x[i];
    s += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
  }
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  if (lane == 0) y[row] = s;
}

// y = transpose(A) x by blocks of rows, partial sums added atomically.
__global__ void matvec_columns(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int cols, int each) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * each;
  float s = 0.0f;
#pragma unroll 8
  for (int r = first; r < first + each; ++r) s += a[(size_t)r * cols + col] * x[r];
  atomicAdd(y + col, s);
}

// Many 16 x 16 transposes, one a block of 256 threads.
__global__ void transpose16(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float tile[16][17];
  size_t at = (size_t)blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x >> 4][threadIdx.x & 15] = in[at];
  __syncthreads();
  out[at] = tile[threadIdx.x & 15][threadIdx.x >> 4];
}

// Nearest of 64 centroids in eight dimensions, centroids in shared memory, points as a structure of arrays.
__global__ void nearest(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ out, int n) {
  __shared__ float c[64 * 8];
  for (int i = threadIdx.x; i < 512; i += blockDim.x) c[i] = centroids[i];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float p[8], best = 3.4e38f;
  int which = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) p[k] = points[(size_t)k * n + i];
  for (int j = 0; j < 64; ++j) {
    float d = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) { float e = p[k] - c[j * 8 + k]; d += e * e; }
    which = d < best ? j : which;
    best = fminf(d, best);
  }
  out[i] = which;
}

// All pairs through tiles of 256 bodies.
__global__ void nbody(const float4* __restrict__ bodies, float4* __restrict__ force, int n) {
  __shared__ float4 tile[256];
  float4 me = bodies[blockIdx.x * 256 + threadIdx.x];
  float fx = 0, fy = 0, fz = 0;
  for (int first = 0; first < n; first += 256) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 256; ++j) {
      float4 o = tile[j];
      float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
      float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-6f), s = o.w * r * r * r;
      fx += dx * s; fy += dy * s; fz += dz * s;
    }
    __syncthreads();
  }
  force[blockIdx.x * 256 + threadIdx.x] = make_float4(fx, fy, fz, 0.0f);
}

// 64 x 64 tiles, 4 x 4 results a thread, 256 threads.
__global__ void __launch_bounds__(256) sgemm64(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  __shared__ float as[16][64], bs[16][64];
  int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
  int ar = threadIdx.x >> 2, ak = (threadIdx.x & 3) * 4, bk = threadIdx.x >> 4, bc = (threadIdx.x & 15) * 4;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    float4 va = *reinterpret_cast<const float4*>(a + (size_t)(row0 + ar) * n + k0 + ak);
    float4 vb = *reinterpret_cast<const float4*>(b + (size_t)(k0 + bk) * n + col0 + bc);
    as[ak][ar] = va.x; as[ak + 1][ar] = va.y; as[ak + 2][ar] = va.z; as[ak + 3][ar] = va.w;
    *reinterpret_cast<float4*>(&bs[bk][bc]) = vb;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float4 x = *reinterpret_cast<const float4*>(&as[k][ty * 4]), y = *reinterpret_cast<const float4*>(&bs[k][tx * 4]);
      float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] += xs[i] * ys[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<float4*>(c + (size_t)(row0 + ty * 4 + i) * n + col0 + tx * 4) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}
}

// 3 x 3 convolution through a shared tile with its halo; the input has a border of one.
template <int BX, int BY>
__global__ void conv3_tile(const float* __restrict__ in, const float* __restrict__ weight, float* __restrict__ out, int pitch, int width) {
  __shared__ float tile[BY + 2][BX + 2];
  int x0 = blockIdx.x * BX, y0 = blockIdx.y * BY, t = threadIdx.y * BX + threadIdx.x;
  for (int i = t; i < (BX + 2) * (BY + 2); i += BX * BY) tile[i / (BX + 2)][i % (BX + 2)] = in[(y0 + i / (BX + 2)) * pitch + x0 + i % (BX + 2)];
  __syncthreads();
  float s = 0.0f;
#pragma unroll
  for (int k = 0; k < 9; ++k) s += weight[k] * tile[threadIdx.y + k / 3][threadIdx.x + k % 3];
  out[(size_t)(y0 + threadIdx.y) * width + x0 + threadIdx.x] = s;
}
