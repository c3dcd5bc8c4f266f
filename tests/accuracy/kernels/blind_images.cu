// Pictures and scenes: filters in tiles, tables of regions, motion, transforms of blocks, rays, volumes, votes.
#include <cuda_fp16.h>

// Gaussian of both directions in one pass through shared memory, tiles of 32 x 32, four rows a thread; the border is clamped.
template <int R>
__global__ void gaussian_tile(const float* __restrict__ in, const float* __restrict__ weights, float* __restrict__ out, int width, int height) {
  __shared__ float tile[32 + 2 * R][32 + 2 * R], rows[32 + 2 * R][32];
  __shared__ float w[R + 1];
  int x0 = blockIdx.x * 32, y0 = blockIdx.y * 32, t = threadIdx.y * 32 + threadIdx.x;
  if (t <= R) w[t] = weights[t];
  for (int y = threadIdx.y; y < 32 + 2 * R; y += 8)
    for (int x = threadIdx.x; x < 32 + 2 * R; x += 32)
      tile[y][x] = in[(size_t)min(max(y0 + y - R, 0), height - 1) * width + min(max(x0 + x - R, 0), width - 1)];
  __syncthreads();
  for (int y = threadIdx.y; y < 32 + 2 * R; y += 8) {
    float s = w[0] * tile[y][threadIdx.x + R];
#pragma unroll
    for (int k = 1; k <= R; ++k) s += w[k] * (tile[y][threadIdx.x + R - k] + tile[y][threadIdx.x + R + k]);
    rows[y][threadIdx.x] = s;
  }
  __syncthreads();
#pragma unroll
  for (int y = threadIdx.y; y < 32; y += 8) {
    float s = w[0] * rows[y + R][threadIdx.x];
#pragma unroll
    for (int k = 1; k <= R; ++k) s += w[k] * (rows[y + R - k][threadIdx.x] + rows[y + R + k][threadIdx.x]);
    if (x0 + threadIdx.x < width && y0 + y < height) out[(size_t)(y0 + y) * width + x0 + threadIdx.x] = s;
  }
}

extern "C" {

// Equalisation by regions: each pixel between the tables of the four nearest of 8 x 8 regions.
__global__ void equalise_regions(const unsigned char* __restrict__ in, const unsigned char* __restrict__ tables, unsigned char* __restrict__ out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float fx = (x + 0.5f) * 8.0f / width - 0.5f, fy = (y + 0.5f) * 8.0f / height - 0.5f;
  int x0 = (int)floorf(fx), y0 = (int)floorf(fy);
  float ax = fx - x0, ay = fy - y0;
  int left = max(x0, 0), right = min(x0 + 1, 7), top = max(y0, 0), bottom = min(y0 + 1, 7), v = in[(size_t)y * width + x];
  float a = tables[(top * 8 + left) * 256 + v], b = tables[(top * 8 + right) * 256 + v], c = tables[(bottom * 8 + left) * 256 + v], d = tables[(bottom * 8 + right) * 256 + v];
  float upper = a + ax * (b - a), lower = c + ax * (d - c);
  out[(size_t)y * width + x] = (unsigned char)(upper + ay * (lower - upper) + 0.5f);
}

// Dilation by 3 x 3 of bytes, four a thread, eight rows one after another with the last three kept.
__global__ void dilate3(const unsigned* __restrict__ in, unsigned* __restrict__ out, int words, int height) {
  int w = blockIdx.x * blockDim.x + threadIdx.x, y0 = blockIdx.y * 8;
  if (w >= words) return;
  unsigned kept[3] = {};
#pragma unroll
  for (int k = 0; k < 10; ++k) {
    int y = min(max(y0 + k - 1, 0), height - 1);
    const unsigned* p = in + (size_t)y * words;
    unsigned here = p[w], before = w ? p[w - 1] : 0u, after = w + 1 < words ? p[w + 1] : 0u;
    kept[k % 3] = __vmaxu4(here, __vmaxu4(__funnelshift_l(before, here, 8), __funnelshift_r(here, after, 8)));
    if (k >= 2 && y0 + k - 2 < height) out[(size_t)(y0 + k - 2) * words + w] = __vmaxu4(kept[0], __vmaxu4(kept[1], kept[2]));
  }
}

// Structural similarity of two pictures of bytes in windows of 8 x 8, four apart: a thread sums 4 x 4 pixels, windows by sharing.
__global__ void similarity_windows(const unsigned* __restrict__ a, const unsigned* __restrict__ b, float* __restrict__ out, int words, int rows4) {
  __shared__ int sums[4][9][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  for (int part = threadIdx.y * 32 + threadIdx.x; part < 9 * 33; part += 256) {
    int px = min((int)blockIdx.x * 32 + part % 33, words - 1), py = min((int)blockIdx.y * 8 + part / 33, rows4 - 1);
    unsigned s = 0, t = 0, ss = 0, st = 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      unsigned u = a[(size_t)(4 * py + r) * words + px], v = b[(size_t)(4 * py + r) * words + px];
      s = __dp4a(u, 0x01010101u, s);
      t = __dp4a(v, 0x01010101u, t);
      ss = __dp4a(u, u, __dp4a(v, v, ss));
      st = __dp4a(u, v, st);
    }
    sums[0][part / 33][part % 33] = s;
    sums[1][part / 33][part % 33] = t;
    sums[2][part / 33][part % 33] = ss;
    sums[3][part / 33][part % 33] = st;
  }
  __syncthreads();
  if (x >= words - 1 || y >= rows4 - 1) return;
  float v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    v[k] = sums[k][threadIdx.y][threadIdx.x] + sums[k][threadIdx.y][threadIdx.x + 1] + sums[k][threadIdx.y + 1][threadIdx.x] + sums[k][threadIdx.y + 1][threadIdx.x + 1];
  float m = v[0] * v[1], q = v[0] * v[0] + v[1] * v[1], variance = 64.0f * v[2] - q, common = 64.0f * v[3] - m;
  out[(size_t)y * (words - 1) + x] = __fdividef((2.0f * m + 26634.2f) * (2.0f * common + 239708.2f), (q + 26634.2f) * (variance + 239708.2f));
}

// Where blocks of 16 x 16 bytes were in the picture before, of 16 x 8 places: a block of 128 threads each, a place a thread.
__global__ void __launch_bounds__(128) motion_search(const unsigned* __restrict__ now, const unsigned* __restrict__ before, unsigned* __restrict__ best, int words, int rows) {
  __shared__ unsigned window[24][9];
  __shared__ uint4 block[16];
  __shared__ unsigned least[4];
  int t = threadIdx.x, bx = blockIdx.x * 4, by = blockIdx.y * 16;
  for (int i = t; i < 23 * 8; i += 128) {
    int x = min(max(bx + (i & 7) - 2, 0), words - 1), y = min(max(by + (i >> 3) - 4, 0), rows - 1);
    window[i >> 3][i & 7] = before[(size_t)y * words + x];
  }
  if (t < 64) ((unsigned*)block)[t] = now[(size_t)(by + (t >> 2)) * words + bx + (t & 3)];
  if (t < 24) window[t][8] = 0;
  __syncthreads();
  int dx = t & 15, dy = t >> 4, shift = 8 * (dx & 3);
  unsigned s = 0;
#pragma unroll 4
  for (int r = 0; r < 16; ++r) {
    const unsigned* p = window[dy + r] + (dx >> 2);
    uint4 c = block[r];
    unsigned w0 = p[0], w1 = p[1], w2 = p[2], w3 = p[3], w4 = p[4];
    s += __vsadu4(c.x, __funnelshift_r(w0, w1, shift)) + __vsadu4(c.y, __funnelshift_r(w1, w2, shift)) + __vsadu4(c.z, __funnelshift_r(w2, w3, shift)) + __vsadu4(c.w, __funnelshift_r(w3, w4, shift));
  }
  unsigned key = __reduce_min_sync(0xffffffffu, s << 8 | t);
  if ((t & 31) == 0) least[t >> 5] = key;
  __syncthreads();
  if (t == 0) best[blockIdx.y * gridDim.x + blockIdx.x] = min(min(least[0], least[1]), min(least[2], least[3]));
}

// A picture with transparency over another, four pixels of RGBA a thread.
__global__ void blend_over(const uint4* __restrict__ front, uint4* __restrict__ back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 f = front[i], b = back[i];
  unsigned *p = (unsigned*)&f, *q = (unsigned*)&b;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    unsigned rest = 255 - (p[k] >> 24), even = (q[k] & 0xff00ffu) * rest + 0x800080u, odd = (q[k] >> 8 & 0xff00ffu) * rest + 0x800080u;
    even = (even + (even >> 8 & 0xff00ffu)) >> 8 & 0xff00ffu;
    odd = odd + (odd >> 8 & 0xff00ffu) & 0xff00ff00u;
    q[k] = __vaddus4(p[k], even | odd);
  }
  back[i] = b;
}

// Nearest of many boxes along each ray (slabs), boxes staged in shared memory 128 at a time.
__global__ void nearest_boxes(const float4* __restrict__ origins, const float4* __restrict__ inverses, const float4* __restrict__ low, const float4* __restrict__ high, int2* __restrict__ hits, int boxes, int n) {
  __shared__ float4 from[128], to[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x, at = min(i, n - 1), found = -1;
  float4 o = origins[at], d = inverses[at];
  float nearest = 1e30f;
  for (int b0 = 0; b0 < boxes; b0 += 128) {
    __syncthreads();
    for (int k = threadIdx.x; k < 128; k += blockDim.x) {
      from[k] = low[b0 + k];
      to[k] = high[b0 + k];
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < 128; ++k) {
      float4 p = from[k], q = to[k];
      float x0 = (p.x - o.x) * d.x, x1 = (q.x - o.x) * d.x, y0 = (p.y - o.y) * d.y, y1 = (q.y - o.y) * d.y, z0 = (p.z - o.z) * d.z, z1 = (q.z - o.z) * d.z;
      float enter = fmaxf(fmaxf(fminf(x0, x1), fminf(y0, y1)), fmaxf(fminf(z0, z1), 0.0f));
      float leave = fminf(fminf(fmaxf(x0, x1), fmaxf(y0, y1)), fmaxf(z0, z1));
      if (enter <= leave && enter < nearest) {
        nearest = enter;
        found = b0 + k;
      }
    }
  }
  if (i < n) hits[i] = make_int2(found, __float_as_int(nearest));
}

// Marching cubes, first pass: which corners of a cube lie inside, a byte a cube; cubes that are cut are counted.
__global__ void classify_cubes(const float* __restrict__ volume, unsigned char* __restrict__ kinds, int* __restrict__ cut, int nx, int ny, float level) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  int kind = 0;
  if (x < nx - 1 && y < ny - 1) {
    const float *p = volume + ((size_t)z * ny + y) * nx + x, *q = p + (size_t)nx * ny;
    kind = (p[0] < level) | (p[1] < level) << 1 | (p[nx + 1] < level) << 2 | (p[nx] < level) << 3 | (q[0] < level) << 4 | (q[1] < level) << 5 | (q[nx + 1] < level) << 6 | (q[nx] < level) << 7;
    kinds[((size_t)z * (ny - 1) + y) * (nx - 1) + x] = kind;
  }
  int many = __syncthreads_count(kind != 0 && kind != 255);
  if (threadIdx.x == 0 && threadIdx.y == 0 && many) atomicAdd(cut, many);
}

// Pictures of high range (four halves a pixel) to bytes: exposure, a filmic curve, the screen's gamma.
__global__ void tone_map(const uint2* __restrict__ in, uchar4* __restrict__ out, float exposure, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint2 h = in[i];
  float2 a = __half22float2(*(__half2*)&h.x), b = __half22float2(*(__half2*)&h.y);
  float v[3] = {a.x, a.y, b.x};
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    float x = fmaxf(v[k] * exposure, 0.0f);
    x = __saturatef(__fdividef(x * (2.51f * x + 0.03f), x * (2.43f * x + 0.59f) + 0.14f));
    v[k] = x <= 0.0031308f ? 12.92f * x : 1.055f * exp2f(__log2f(x) * (1.0f / 2.4f)) - 0.055f;
  }
  out[i] = make_uchar4((unsigned char)(v[0] * 255.0f + 0.5f), (unsigned char)(v[1] * 255.0f + 0.5f), (unsigned char)(v[2] * 255.0f + 0.5f), (unsigned char)(__saturatef(b.y) * 255.0f + 0.5f));
}

// One line of eight by the cosine transform.
__device__ __forceinline__ void cosines8(float* v) {
  float a0 = v[0] + v[7], a1 = v[1] + v[6], a2 = v[2] + v[5], a3 = v[3] + v[4], b0 = v[0] - v[7], b1 = v[1] - v[6], b2 = v[2] - v[5], b3 = v[3] - v[4];
  v[0] = 0.35355339f * (a0 + a1 + a2 + a3);
  v[4] = 0.35355339f * (a0 - a1 - a2 + a3);
  v[2] = 0.46193977f * (a0 - a3) + 0.19134172f * (a1 - a2);
  v[6] = 0.19134172f * (a0 - a3) - 0.46193977f * (a1 - a2);
  v[1] = 0.49039264f * b0 + 0.41573481f * b1 + 0.27778512f * b2 + 0.09754516f * b3;
  v[3] = 0.41573481f * b0 - 0.09754516f * b1 - 0.49039264f * b2 - 0.27778512f * b3;
  v[5] = 0.27778512f * b0 - 0.49039264f * b1 + 0.09754516f * b2 + 0.41573481f * b3;
  v[7] = 0.09754516f * b0 - 0.27778512f * b1 + 0.41573481f * b2 - 0.49039264f * b3;
}

// Blocks of 8 x 8 bytes to quantised cosine coefficients: eight threads a block, a row each, then a column each.
__global__ void cosine_blocks(const uint2* __restrict__ in, const float* __restrict__ steps, int4* __restrict__ out, int blocks_wide, int blocks) {
  __shared__ float tile[16][8][9];
  int r = threadIdx.x & 7, own = threadIdx.x >> 3, b = blockIdx.x * 16 + own;
  float v[8];
  if (b < blocks) {
    uint2 p = in[(size_t)(b / blocks_wide * 8 + r) * blocks_wide + b % blocks_wide];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = (float)((k < 4 ? p.x : p.y) >> 8 * (k & 3) & 255) - 128.0f;
    cosines8(v);
#pragma unroll
    for (int k = 0; k < 8; ++k) tile[own][r][k] = v[k];
  }
  __syncwarp();
  if (b >= blocks) return;
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = tile[own][k][r];
  cosines8(v);
  int q[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) q[k] = __float2int_rn(v[k] * steps[k * 8 + r]) & 0xffff;
  out[(size_t)b * 8 + r] = make_int4(q[0] | q[1] << 16, q[2] | q[3] << 16, q[4] | q[5] << 16, q[6] | q[7] << 16);
}

// Light along rays through a volume of bytes, front to back until little gets through; samples are trilinear.
__global__ void march_volume(const unsigned char* __restrict__ volume, float* __restrict__ out, int side, int width, int height, float slope, int steps) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  float x = (px + 0.5f) * (side - 2) / width * 0.7f, y = (py + 0.5f) * (side - 2) / height * 0.7f, z = 0.5f, light = 0.0f, left = 1.0f;
  for (int k = 0; k < steps && left > 0.02f; ++k) {
    int ix = (int)x, iy = (int)y, iz = (int)z;
    if (ix >= side - 1 || iy >= side - 1 || iz >= side - 1) break;
    float ax = x - ix, ay = y - iy, az = z - iz;
    const unsigned char *p = volume + ((size_t)iz * side + iy) * side + ix, *q = p + side * side;
    float a = p[0] + ax * (p[1] - p[0]), b = p[side] + ax * (p[side + 1] - p[side]), c = q[0] + ax * (q[1] - q[0]), d = q[side] + ax * (q[side + 1] - q[side]);
    a += ay * (b - a);
    c += ay * (d - c);
    float v = (a + az * (c - a)) * (1.0f / 255.0f), take = v * v * 0.25f;
    light += left * take * v;
    left *= 1.0f - take;
    x += slope;
    y += 0.5f * slope;
    z += 1.0f;
  }
  out[(size_t)py * width + px] = light;
}

// Votes of edge points for lines: an angle a block, its distances counted in shared memory.
__global__ void line_votes(const ushort2* __restrict__ points, int* __restrict__ votes, int distances, float turn, int n) {
  extern __shared__ int own[];
  for (int k = threadIdx.x; k < distances; k += blockDim.x) own[k] = 0;
  __syncthreads();
  float s, c;
  __sincosf(blockIdx.x * turn, &s, &c);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    ushort2 p = points[i];
    int d = (int)(p.x * c + p.y * s) + distances / 2;
    if (d >= 0 && d < distances) atomicAdd(&own[d], 1);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < distances; k += blockDim.x) votes[blockIdx.x * distances + k] = own[k];
}
}
