// Scenes, pictures and learnt models: skinned meshes, regions, thin edges, graded colours, encoded places, rays, trees.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {

// Points and normals of a mesh moved by up to four bones each.
__global__ void skin_vertices(const float4* __restrict__ place, const float4* __restrict__ normal, const uchar4* __restrict__ bones, const float4* __restrict__ weights, const float4* __restrict__ palette, float4* __restrict__ place_out, float4* __restrict__ normal_out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = place[i], m = normal[i], w = weights[i];
  uchar4 b = bones[i];
  int bone[4] = {b.x, b.y, b.z, b.w};
  float weight[4] = {w.x, w.y, w.z, w.w}, rows[3][4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int r = 0; r < 3; ++r) {
      float4 row = palette[3 * bone[k] + r];
      rows[r][0] += weight[k] * row.x;
      rows[r][1] += weight[k] * row.y;
      rows[r][2] += weight[k] * row.z;
      rows[r][3] += weight[k] * row.w;
    }
  float to[3], turned[3];
#pragma unroll
  for (int r = 0; r < 3; ++r) {
    to[r] = rows[r][0] * p.x + rows[r][1] * p.y + rows[r][2] * p.z + rows[r][3];
    turned[r] = rows[r][0] * m.x + rows[r][1] * m.y + rows[r][2] * m.z;
  }
  float length = rsqrtf(turned[0] * turned[0] + turned[1] * turned[1] + turned[2] * turned[2]);
  place_out[i] = make_float4(to[0], to[1], to[2], 1);
  normal_out[i] = make_float4(turned[0] * length, turned[1] * length, turned[2] * length, 0);
}

// Connected regions within tiles of 32x32: the least label of a point's neighbours, until a round changes nothing.
__global__ void label_tiles(const unsigned char* __restrict__ in, int* __restrict__ labels, int width, int threshold) {
  __shared__ int tile[34][35];
  const int none = 0x7fffffff;
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx;
  size_t at = (size_t)(blockIdx.y * 32 + ty) * width + blockIdx.x * 32 + tx;
  bool inside = in[at] >= threshold;
  tile[ty + 1][tx + 1] = inside ? t : none;
  if (ty == 0) tile[0][tx + 1] = tile[33][tx + 1] = none;
  if (tx == 0) tile[ty + 1][0] = tile[ty + 1][33] = none;
  __syncthreads();
  int own = inside ? t : none;
  bool changed;
  do {
    int least = min(min(tile[ty][tx + 1], tile[ty + 2][tx + 1]), min(tile[ty + 1][tx], tile[ty + 1][tx + 2]));
    changed = inside && least < own;
    __syncthreads();
    if (changed) tile[ty + 1][tx + 1] = own = least;
  } while (__syncthreads_or(changed));
  labels[at] = inside ? (blockIdx.y * gridDim.x + blockIdx.x) * 1024 + own : -1;
}

// Edges one point wide: a gradient stays where none along it is larger, marked by two thresholds.
__global__ void thin_edges(const short2* __restrict__ gradient, unsigned char* __restrict__ out, int width, int height, int low, int high) {
  __shared__ int tile[10][34];
  int tx = threadIdx.x, ty = threadIdx.y, x0 = blockIdx.x * 32 - 1, y0 = blockIdx.y * 8 - 1;
  for (int k = ty * 32 + tx; k < 340; k += 256) {
    int x = min(max(x0 + k % 34, 0), width - 1), y = min(max(y0 + k / 34, 0), height - 1);
    short2 g = gradient[(size_t)y * width + x];
    tile[k / 34][k % 34] = g.x * g.x + g.y * g.y;
  }
  __syncthreads();
  int x = x0 + 1 + tx, y = y0 + 1 + ty;
  if (x >= width || y >= height) return;
  int own = tile[ty + 1][tx + 1], mark = 0;
  if (own >= low) {
    short2 g = gradient[(size_t)y * width + x];
    int ax = abs((int)g.x), ay = abs((int)g.y), dx = 1, dy = 0;
    if (5 * ay > 12 * ax) dx = 0, dy = 1;
    else if (12 * ay > 5 * ax) dy = (g.x ^ g.y) < 0 ? -1 : 1;
    if (own > tile[ty + 1 - dy][tx + 1 - dx] && own >= tile[ty + 1 + dy][tx + 1 + dx]) mark = own >= high ? 2 : 1;
  }
  out[(size_t)y * width + x] = mark;
}

// Colours by a table of 33x33x33: the four corners of the tetrahedron in which a colour lies.
__global__ void grade_colours(const uchar4* __restrict__ in, const float4* __restrict__ table, uchar4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uchar4 c = in[i];
  float r = c.x * (32 / 255.0f), g = c.y * (32 / 255.0f), b = c.z * (32 / 255.0f);
  int ir = min((int)r, 31), ig = min((int)g, 31), ib = min((int)b, 31), at = (ib * 33 + ig) * 33 + ir;
  r -= ir;
  g -= ig;
  b -= ib;
  float high, middle, low;
  int first, second;
  if (r > g) {
    if (g > b) high = r, middle = g, low = b, first = 1, second = 1 + 33;
    else if (r > b) high = r, middle = b, low = g, first = 1, second = 1 + 33 * 33;
    else high = b, middle = r, low = g, first = 33 * 33, second = 1 + 33 * 33;
  } else {
    if (b > g) high = b, middle = g, low = r, first = 33 * 33, second = 33 + 33 * 33;
    else if (b > r) high = g, middle = b, low = r, first = 33, second = 33 + 33 * 33;
    else high = g, middle = r, low = b, first = 33, second = 1 + 33;
  }
  float4 v0 = table[at], v1 = table[at + first], v2 = table[at + second], v3 = table[at + 1 + 33 + 33 * 33];
  float w0 = 1 - high, w1 = high - middle, w2 = middle - low;
  float x = w0 * v0.x + w1 * v1.x + w2 * v2.x + low * v3.x, y = w0 * v0.y + w1 * v1.y + w2 * v2.y + low * v3.y;
  float z = w0 * v0.z + w1 * v1.z + w2 * v2.z + low * v3.z;
  out[i] = make_uchar4(__saturatef(x) * 255 + 0.5f, __saturatef(y) * 255 + 0.5f, __saturatef(z) * 255 + 0.5f, c.w);
}

// Means of 2x2 interpolated samples in each of 7x7 bins of regions of a feature map, a bin of a channel a thread.
__global__ void region_features(const float* __restrict__ map, const float4* __restrict__ regions, float* __restrict__ out, int channels, int width, int height, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int px = i % 7, py = i / 7 % 7, c = i / 49 % channels, k = i / (49 * channels);
  float4 region = regions[k];
  float x0 = region.x * scale - 0.5f, y0 = region.y * scale - 0.5f;
  float bx = (region.z - region.x) * scale * (1 / 7.0f), by = (region.w - region.y) * scale * (1 / 7.0f), sum = 0;
  const float* plane = map + (size_t)c * width * height;
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    float x = x0 + (px + (s & 1) * 0.5f + 0.25f) * bx, y = y0 + (py + (s >> 1) * 0.5f + 0.25f) * by;
    if (x < -1 || x > width || y < -1 || y > height) continue;
    x = fminf(fmaxf(x, 0), width - 1);
    y = fminf(fmaxf(y, 0), height - 1);
    int xl = (int)x, yl = (int)y, xh = min(xl + 1, width - 1), yh = min(yl + 1, height - 1);
    float fx = x - xl, fy = y - yl;
    float top = plane[yl * width + xl] * (1 - fx) + plane[yl * width + xh] * fx;
    float bottom = plane[yh * width + xl] * (1 - fx) + plane[yh * width + xh] * fx;
    sum += top * (1 - fy) + bottom * fy;
  }
  out[i] = 0.25f * sum;
}

// Features of places in space from hashed grids of 16 resolutions: eight corners of a level a thread.
__global__ void hash_encode(const float* __restrict__ places, const half2* __restrict__ tables, half2* __restrict__ out, unsigned mask, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, level = blockIdx.y;
  if (i >= n) return;
  float scale = 16 * exp2f(level * 0.4f);
  const half2* table = tables + (size_t)level * (mask + 1);
  float x = places[3 * i] * scale, y = places[3 * i + 1] * scale, z = places[3 * i + 2] * scale;
  unsigned ix = (unsigned)x, iy = (unsigned)y, iz = (unsigned)z;
  float fx = x - ix, fy = y - iy, fz = z - iz, a = 0, b = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    unsigned h = (ix + (k & 1)) ^ (iy + (k >> 1 & 1)) * 2654435761u ^ (iz + (k >> 2)) * 805459861u;
    float2 v = __half22float2(table[h & mask]);
    float w = (k & 1 ? fx : 1 - fx) * (k & 2 ? fy : 1 - fy) * (k & 4 ? fz : 1 - fz);
    a += w * v.x;
    b += w * v.y;
  }
  out[(size_t)i * gridDim.y + level] = __floats2half2_rn(a, b);
}

// Rays of a picture through a grid of bits, cell by cell, to the first that is set.
__global__ void walk_cells(const unsigned* __restrict__ cells, int2* __restrict__ hits, int side, int width, int height, float ex, float ey, float ez, float spread) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  float dx = (px - 0.5f * width + 0.25f) * spread, dy = (py - 0.5f * height + 0.25f) * spread, dz = 1;
  float rx = fabsf(1 / dx), ry = fabsf(1 / dy), rz = 1;
  int x = (int)ex, y = (int)ey, z = (int)ez, sx = dx < 0 ? -1 : 1, sy = dy < 0 ? -1 : 1;
  float tx = (dx < 0 ? ex - x : x + 1 - ex) * rx, ty = (dy < 0 ? ey - y : y + 1 - ey) * ry, tz = (z + 1 - ez) * rz;
  int steps = 0, found = -1;
  while ((unsigned)x < side && (unsigned)y < side && (unsigned)z < side) {
    int at = (z * side + y) * side + x;
    if (cells[at >> 5] >> (at & 31) & 1) {
      found = at;
      break;
    }
    if (tx < ty && tx < tz) x += sx, tx += rx;
    else if (ty < tz) y += sy, ty += ry;
    else z += 1, tz += rz;
    ++steps;
  }
  hits[(size_t)py * width + px] = make_int2(found, steps);
}

// Sums over trees of seven questions, a sample of 32 bytes of features a thread: the features lie in shared memory.
__global__ void ask_trees(const unsigned* __restrict__ features, const uchar2* __restrict__ nodes, const float* __restrict__ leaves, float* __restrict__ out, int trees, int n) {
  __shared__ unsigned own[8][128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  for (int k = t; k < 1024 && blockIdx.x * 1024 + k < 8 * n; k += 128) own[k & 7][k >> 3] = features[blockIdx.x * 1024 + k];
  __syncthreads();
  if (i >= n) return;
  float sum = 0;
  for (int tree = 0; tree < trees; ++tree) {
    const uchar2* asked = nodes + tree * 128;
    int at = 1;
#pragma unroll
    for (int depth = 0; depth < 7; ++depth) {
      uchar2 node = asked[at];
      unsigned value = own[node.x >> 2][t] >> 8 * (node.x & 3) & 255;
      at = 2 * at + (value > node.y);
    }
    sum += leaves[tree * 128 + at - 128];
  }
  out[i] = sum;
}

__device__ __forceinline__ unsigned scrambled(unsigned v) {
  v = (v ^ v >> 17) * 0xed5ad4bbu;
  v = (v ^ v >> 11) * 0xac4c1b51u;
  v = (v ^ v >> 15) * 0x31848babu;
  return v ^ v >> 14;
}

__device__ __forceinline__ unsigned rounded_at_random(float low, float high, unsigned noise) {
  return __float_as_uint(low) + (noise & 0xffffu) >> 16 | (__float_as_uint(high) + (noise >> 16) & 0xffff0000u);
}

// Weights less a step, rounded at random to bfloat16.
__global__ void step_bf16(uint4* __restrict__ weights, const float4* __restrict__ gradient, float rate, unsigned seed, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 w = weights[i];
  float4 g[2] = {gradient[2 * (size_t)i], gradient[2 * (size_t)i + 1]};
  unsigned words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float a = k & 1 ? g[k >> 1].z : g[k >> 1].x, b = k & 1 ? g[k >> 1].w : g[k >> 1].y;
    float low = __uint_as_float(words[k] << 16) - rate * a, high = __uint_as_float(words[k] & 0xffff0000u) - rate * b;
    words[k] = rounded_at_random(low, high, scrambled(4 * i + k ^ seed));
  }
  weights[i] = make_uint4(words[0], words[1], words[2], words[3]);
}
}
