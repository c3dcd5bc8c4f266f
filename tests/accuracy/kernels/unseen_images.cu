// Images: neighbourhoods, running sums, colour planes, gathers by geometry.

typedef unsigned char byte;

extern "C" {

// Sobel magnitude of a grey image; the border is clamped.
__global__ void sobel(const byte* __restrict__ in, byte* __restrict__ out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int l = max(x - 1, 0), r = min(x + 1, width - 1), u = max(y - 1, 0) * width, m = y * width, d = min(y + 1, height - 1) * width;
  int a = in[u + l], b = in[u + x], c = in[u + r], e = in[m + l], f = in[m + r], g = in[d + l], h = in[d + x], i = in[d + r];
  int gx = c + 2 * f + i - a - 2 * e - g, gy = g + 2 * h + i - a - 2 * b - c;
  out[m + x] = (byte)min(abs(gx) + abs(gy), 255);
}

// Median of nine by an exchange network.
__device__ __forceinline__ void order(float& a, float& b) {
  float t = fminf(a, b);
  b = fmaxf(a, b);
  a = t;
}

__global__ void median3(const float* in, float* out, int pitch, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float v[9];
#pragma unroll
  for (int k = 0; k < 9; ++k) v[k] = in[(y + k / 3) * pitch + x + k % 3];
  order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[1]); order(v[3], v[4]); order(v[6], v[7]);
  order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[3]); order(v[5], v[8]); order(v[4], v[7]);
  order(v[3], v[6]); order(v[1], v[4]); order(v[2], v[5]); order(v[4], v[7]); order(v[4], v[2]); order(v[6], v[4]);
  order(v[4], v[2]);
  out[y * width + x] = v[4];
}

// NV12 to packed RGBA: one thread two pixels of a row, chroma shared by 2 x 2 pixels.
__global__ void nv12_to_rgba(const uchar2* __restrict__ luma, const uchar2* __restrict__ chroma, uchar4* __restrict__ out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (2 * x >= width) return;
  uchar2 l = luma[(y * width >> 1) + x], c = chroma[((y >> 1) * width >> 1) + x];
  int u = c.x - 128, v = c.y - 128;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    int w = 298 * ((k ? l.y : l.x) - 16) + 128;
    int r = (w + 409 * v) >> 8, g = (w - 100 * u - 208 * v) >> 8, b = (w + 516 * u) >> 8;
    out[y * width + 2 * x + k] = make_uchar4(min(max(r, 0), 255), min(max(g, 0), 255), min(max(b, 0), 255), 255);
  }
}

// Vertical box of 2 * radius + 1 rows by a running sum, each thread a column of `each` rows.
__global__ void box_columns(const float* __restrict__ in, float* __restrict__ out, int width, int height, int radius, int each) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * each, last = min(first + each, height);
  if (x >= width) return;
  float scale = 1.0f / (2 * radius + 1), sum = 0.0f;
  for (int y = first - radius; y < first + radius; ++y) sum += in[min(max(y, 0), height - 1) * width + x];
  for (int y = first; y < last; ++y) {
    sum += in[min(y + radius, height - 1) * width + x];
    out[y * width + x] = sum * scale;
    sum -= in[max(y - radius, 0) * width + x];
  }
}

// Horizontal box by a running sum, a row a thread: neighbours are a row apart.
__global__ void box_rows(const float* __restrict__ in, float* __restrict__ out, int width, int height, int radius) {
  int y = blockIdx.x * blockDim.x + threadIdx.x;
  if (y >= height) return;
  const float* p = in + (size_t)y * width;
  float scale = 1.0f / (2 * radius + 1), sum = 0.0f;
  for (int x = 0; x < radius; ++x) sum += p[x];
  for (int x = 0; x < width; ++x) {
    if (x + radius < width) sum += p[x + radius];
    out[(size_t)y * width + x] = sum * scale;
    if (x >= radius) sum -= p[x - radius];
  }
}

// Integral image, first pass: prefix sums of rows, a block a row, carry from chunk to chunk.
__global__ void integral_rows(const byte* __restrict__ in, int* __restrict__ out, int width) {
  __shared__ int part[32];
  __shared__ int carry;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  size_t row = (size_t)blockIdx.x * width;
  if (threadIdx.x == 0) carry = 0;
  for (int first = 0; first < width; first += blockDim.x) {
    int x = first + threadIdx.x, s = x < width ? in[row + x] : 0;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      int t = __shfl_up_sync(~0u, s, d);
      if (lane >= d) s += t;
    }
    if (lane == 31) part[warp] = s;
    __syncthreads();
    if (warp == 0) {
      int t = lane < warps ? part[lane] : 0;
#pragma unroll
      for (int d = 1; d < 32; d <<= 1) {
        int u = __shfl_up_sync(~0u, t, d);
        if (lane >= d) t += u;
      }
      part[lane] = t;
    }
    __syncthreads();
    int before = carry + (warp ? part[warp - 1] : 0);
    if (x < width) out[row + x] = s + before;
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) carry = s + before;
    __syncthreads();
  }
}

// Second pass: prefix sums down the columns, in place, a column a thread.
__global__ void integral_columns(int* data, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
  if (x >= width) return;
  for (int y = 0; y < height; ++y) {
    s += data[(size_t)y * width + x];
    data[(size_t)y * width + x] = s;
  }
}

// Rotation about the centre with bilinear samples.
__global__ void rotate(const float* __restrict__ in, float* __restrict__ out, int width, int height, float c, float s) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float dx = x - 0.5f * width, dy = y - 0.5f * height;
  float u = c * dx + s * dy + 0.5f * width, v = c * dy - s * dx + 0.5f * height;
  int u0 = __float2int_rd(u), v0 = __float2int_rd(v);
  float result = 0.0f;
  if (u0 >= 0 && v0 >= 0 && u0 < width - 1 && v0 < height - 1) {
    float fu = u - u0, fv = v - v0;
    const float* p = in + v0 * width + u0;
    float top = p[0] + fu * (p[1] - p[0]), bottom = p[width] + fu * (p[width + 1] - p[width]);
    result = top + fv * (bottom - top);
  }
  out[y * width + x] = result;
}

// Game of life on a torus, four cells of a byte each a thread.
__global__ void life(const unsigned* __restrict__ in, unsigned* __restrict__ out, int words, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= words || y >= height) return;
  int l = x ? x - 1 : words - 1, r = x + 1 < words ? x + 1 : 0, rows[3] = {y ? y - 1 : height - 1, y, y + 1 < height ? y + 1 : 0};
  unsigned sum = 0, own = 0;
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const unsigned* p = in + (size_t)rows[k] * words;
    unsigned a = p[l], b = p[x], c = p[r];
    unsigned west = __funnelshift_l(a, b, 8), east = __funnelshift_r(b, c, 8);
    sum += west + east + (k == 1 ? 0 : b);
    if (k == 1) own = b;
  }
  out[(size_t)y * words + x] = (__vcmpeq4(sum, 0x03030303u) | (__vcmpeq4(sum, 0x02020202u) & __vcmpeq4(own, 0x01010101u))) & 0x01010101u;
}

// Bayer mosaic of 12-bit samples to RGB at half the size in each direction.
__global__ void debayer_half(const ushort2* __restrict__ raw, ushort3* __restrict__ out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  ushort2 a = raw[2 * y * width + x], b = raw[(2 * y + 1) * width + x];
  out[y * width + x] = make_ushort3(a.x, (unsigned short)((a.y + b.x + 1) >> 1), b.y);
}
}

// Bilateral filter through a tile in shared memory.
template <int TILE, int RADIUS>
__global__ void bilateral(const float* __restrict__ in, float* __restrict__ out, int width, int height, float space, float range) {
  constexpr int SIDE = TILE + 2 * RADIUS;
  __shared__ float tile[SIDE][SIDE + 1];
  int x0 = blockIdx.x * TILE - RADIUS, y0 = blockIdx.y * TILE - RADIUS;
  for (int i = threadIdx.y * TILE + threadIdx.x; i < SIDE * SIDE; i += TILE * TILE) {
    int x = min(max(x0 + i % SIDE, 0), width - 1), y = min(max(y0 + i / SIDE, 0), height - 1);
    tile[i / SIDE][i % SIDE] = in[y * width + x];
  }
  __syncthreads();
  float centre = tile[threadIdx.y + RADIUS][threadIdx.x + RADIUS], sum = 0.0f, weight = 0.0f;
#pragma unroll
  for (int dy = -RADIUS; dy <= RADIUS; ++dy)
#pragma unroll
    for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
      float v = tile[threadIdx.y + RADIUS + dy][threadIdx.x + RADIUS + dx], d = v - centre;
      float w = __expf(-(dx * dx + dy * dy) * space - d * d * range);
      sum += w * v;
      weight += w;
    }
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = __fdividef(sum, weight);
}
