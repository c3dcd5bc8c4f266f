// Scientific codes: sparse matrices of several kinds, grids of several levels, waves, spins, particles, transforms, elements.

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// Ten rounds of Philox 4x32: four random words from a counter and a key.
__device__ __forceinline__ uint4 philox(uint4 c, uint2 key) {
#pragma unroll
  for (int r = 0; r < 10; ++r) {
    unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    c = make_uint4(h1 ^ c.y ^ key.x, l1, h0 ^ c.w ^ key.y, l0);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return c;
}

extern "C" {

// Sparse rows times a dense matrix of 64 columns: a warp a row, two columns a lane, entries handed round by shuffles.
__global__ void spmm64(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, const float2* __restrict__ x, float2* __restrict__ y, int rows) {
  int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  if (row >= rows) return;
  int first = start[row], last = start[row + 1];
  float2 s = make_float2(0.0f, 0.0f);
  for (int k0 = first; k0 < last; k0 += 32) {
    int many = min(last - k0, 32);
    int c = lane < many ? column[k0 + lane] : 0;
    float v = lane < many ? value[k0 + lane] : 0.0f;
#pragma unroll 4
    for (int k = 0; k < many; ++k) {
      float w = __shfl_sync(0xffffffffu, v, k);
      float2 u = x[(size_t)__shfl_sync(0xffffffffu, c, k) * 32 + lane];
      s.x += w * u.x;
      s.y += w * u.y;
    }
  }
  y[(size_t)row * 32 + lane] = s;
}

// Products of rows of two dense matrices where a sparse one has entries: eight lanes an entry, 64 columns.
__global__ void sampled_products(const int* __restrict__ row, const int* __restrict__ column, const float* __restrict__ value, const float4* __restrict__ u, const float4* __restrict__ v, float* __restrict__ out, int entries) {
  int e = (blockIdx.x * blockDim.x + threadIdx.x) >> 3, lane = threadIdx.x & 7;
  if (e >= entries) return;
  const float4 *p = u + (size_t)row[e] * 16 + lane, *q = v + (size_t)column[e] * 16 + lane;
  float4 a = p[0], b = q[0], c = p[8], d = q[8];
  float s = a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w + c.x * d.x + c.y * d.y + c.z * d.z + c.w * d.w;
  unsigned mask = 0xffu << (threadIdx.x & 24);
  s += __shfl_xor_sync(mask, s, 4);
  s += __shfl_xor_sync(mask, s, 2);
  s += __shfl_xor_sync(mask, s, 1);
  if (lane == 0) out[e] = s * value[e];
}

// Matrix of sparse 4 x 4 blocks times a vector: a warp a row of blocks, two blocks at a time.
__global__ void block_sparse4(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, const float* __restrict__ x, float* __restrict__ y, int rows) {
  int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  if (row >= rows) return;
  int last = start[row + 1];
  float s = 0.0f;
  for (int k = start[row] + (lane >> 4); k < last; k += 2) s += value[(size_t)k * 16 + (lane & 15)] * x[column[k] * 4 + (lane & 3)];
  s += __shfl_xor_sync(0xffffffffu, s, 16);
  s += __shfl_xor_sync(0xffffffffu, s, 2);
  s += __shfl_xor_sync(0xffffffffu, s, 1);
  if (lane < 16 && (lane & 3) == 0) y[row * 4 + (lane >> 2)] = s;
}

// Entries of a matrix by rows to places by columns; a counter a column says where the next one goes.
__global__ void transpose_entries(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, int* __restrict__ cursor, int* __restrict__ row_out, float* __restrict__ value_out, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  for (int k = start[row]; k < start[row + 1]; ++k) {
    int at = atomicAdd(&cursor[column[k]], 1);
    row_out[at] = row;
    value_out[at] = value[k];
  }
}

// Multigrid: 27 values of a fine grid to one of a coarse grid; fine grids have 2 n + 1 points a side.
__global__ void restrict27(const float* __restrict__ fine, float* __restrict__ coarse, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x >= nx || y >= ny) return;
  int fx = 2 * nx + 1, fy = 2 * ny + 1;
  float s = 0.0f;
#pragma unroll
  for (int dz = 0; dz < 3; ++dz)
#pragma unroll
    for (int dy = 0; dy < 3; ++dy) {
      const float* p = fine + ((size_t)(2 * z + dz) * fy + 2 * y + dy) * fx + 2 * x;
      s += (dz == 1 ? 2.0f : 1.0f) * (dy == 1 ? 2.0f : 1.0f) * (p[0] + 2.0f * p[1] + p[2]);
    }
  coarse[((size_t)z * ny + y) * nx + x] = s * (1.0f / 64.0f);
}

// And back: trilinear values of a coarse grid added to the fine one (2 n by 2 n by 2 n of n + 1 points a side), a pair a thread.
__global__ void prolong_add(const float* __restrict__ coarse, float2* __restrict__ fine, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x >= nx || y >= 2 * ny) return;
  int y0 = y >> 1, y1 = (y + 1) >> 1, z0 = z >> 1, z1 = (z + 1) >> 1, cx = nx + 1, cy = ny + 1;
  const float *a = coarse + ((size_t)z0 * cy + y0) * cx + x, *b = coarse + ((size_t)z0 * cy + y1) * cx + x;
  const float *c = coarse + ((size_t)z1 * cy + y0) * cx + x, *d = coarse + ((size_t)z1 * cy + y1) * cx + x;
  float l = 0.25f * (a[0] + b[0] + c[0] + d[0]), r = 0.25f * (a[1] + b[1] + c[1] + d[1]);
  size_t at = ((size_t)z * 2 * ny + y) * nx + x;
  float2 f = fine[at];
  fine[at] = make_float2(f.x + l, f.y + 0.5f * (l + r));
}

// Acoustic wave of eighth order, marching along z: planes in shared memory, nine values along z in registers. 32 x 16 threads.
__global__ void __launch_bounds__(512) wave_step(const float* __restrict__ now, float* __restrict__ next, const float* __restrict__ speed, int nx, int ny, int nz) {
  __shared__ float tile[24][40];
  const float w[5] = {-2.8472222f, 1.6f, -0.2f, 0.0253968f, -0.0017857f};
  int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 32 + tx + 4, y = blockIdx.y * 16 + ty + 4;
  size_t plane = (size_t)nx * ny, at = (size_t)y * nx + x;
  float q[9];
#pragma unroll
  for (int k = 0; k < 8; ++k) q[k + 1] = now[k * plane + at];
  for (int z = 4; z < nz - 4; ++z) {
#pragma unroll
    for (int k = 0; k < 8; ++k) q[k] = q[k + 1];
    q[8] = now[(z + 4) * plane + at];
    const float* p = now + z * plane + at;
    __syncthreads();
    tile[ty + 4][tx + 4] = q[4];
    if (ty < 4) {
      tile[ty][tx + 4] = p[-4 * nx];
      tile[ty + 20][tx + 4] = p[16 * nx];
    }
    if (tx < 4) {
      tile[ty + 4][tx] = p[-4];
      tile[ty + 4][tx + 36] = p[32];
    }
    __syncthreads();
    float s = 3.0f * w[0] * q[4];
#pragma unroll
    for (int k = 1; k <= 4; ++k)
      s += w[k] * (q[4 - k] + q[4 + k] + tile[ty + 4 - k][tx + 4] + tile[ty + 4 + k][tx + 4] + tile[ty + 4][tx + 4 - k] + tile[ty + 4][tx + 4 + k]);
    size_t i = z * plane + at;
    next[i] = 2.0f * q[4] - next[i] + speed[i] * s;
  }
}

// Advection by second-order upwind differences with a limiter; the wind blows either way. Two cells of border.
__global__ void advect_limited(const float* __restrict__ c, const float* __restrict__ u, const float* __restrict__ v, float* __restrict__ out, int nx, int ny, float step) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 2, y = blockIdx.y * blockDim.y + threadIdx.y + 2;
  if (x >= nx - 2 || y >= ny - 2) return;
  int i = y * nx + x;
  float flux[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    int d = k < 2 ? 1 : nx, j = k & 1 ? i : i - d;
    float wind = k < 2 ? u[j] : v[j];
    int up = wind >= 0.0f ? j : j + d, back = wind >= 0.0f ? -d : d;
    float m = c[up], before = m - c[up + back], after = c[up - back] - m;
    float slope = before * after > 0.0f ? (fabsf(before) < fabsf(after) ? before : after) : 0.0f;
    flux[k] = wind * (m + 0.5f * (1.0f - fabsf(wind) * step) * slope);
  }
  out[i] = c[i] - step * (flux[1] - flux[0] + flux[3] - flux[2]);
}

// Half a sweep of the Ising model on a chequerboard: spins of one colour, four bytes a thread, from those of the other.
__global__ void ising_half(char4* __restrict__ spins, const char4* __restrict__ others, int words, int rows, int colour, float beta, unsigned sweep) {
  int w = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (w >= words) return;
  int up = (y ? y - 1 : rows - 1) * words, down = (y + 1 < rows ? y + 1 : 0) * words, here = y * words;
  bool right = (y + colour) & 1;
  const signed char* bytes = (const signed char*)others + here * 4;
  int side = right ? bytes[w + 1 < words ? 4 * w + 4 : 0] : bytes[w ? 4 * w - 1 : 4 * words - 1];
  char4 s = spins[here + w], a = others[up + w], b = others[down + w], o = others[here + w];
  uint4 r = philox(make_uint4(here + w, sweep, 0, 0), make_uint2(1234u, colour));
  int around[4] = {a.x + b.x + o.x, a.y + b.y + o.y, a.z + b.z + o.z, a.w + b.w + o.w};
  if (right) {
    around[0] += o.y;
    around[1] += o.z;
    around[2] += o.w;
    around[3] += side;
  } else {
    around[0] += side;
    around[1] += o.x;
    around[2] += o.y;
    around[3] += o.z;
  }
  const float f = 2.3283064e-10f;
  s.x = r.x * f < __expf(-2.0f * beta * s.x * around[0]) ? -s.x : s.x;
  s.y = r.y * f < __expf(-2.0f * beta * s.y * around[1]) ? -s.y : s.y;
  s.z = r.z * f < __expf(-2.0f * beta * s.z * around[2]) ? -s.z : s.z;
  s.w = r.w * f < __expf(-2.0f * beta * s.w * around[3]) ? -s.w : s.w;
  spins[here + w] = s;
}

// Densities of smoothed particles, sorted into cells of a cube of `side` cells of the kernel's radius: 27 cells a particle.
__global__ void particle_density(const float4* __restrict__ particles, const int* __restrict__ start, float* __restrict__ density, int side, float radius2, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = particles[i];
  int cx = min((int)p.x, side - 1), cy = min((int)p.y, side - 1), cz = min((int)p.z, side - 1);
  float s = 0.0f;
  for (int z = max(cz - 1, 0); z <= min(cz + 1, side - 1); ++z)
    for (int y = max(cy - 1, 0); y <= min(cy + 1, side - 1); ++y) {
      int row = (z * side + y) * side;
      for (int j = start[row + max(cx - 1, 0)]; j < start[row + min(cx + 1, side - 1) + 1]; ++j) {
        float4 o = particles[j];
        float dx = p.x - o.x, dy = p.y - o.y, dz = p.z - o.z, d = radius2 - dx * dx - dy * dy - dz * dz;
        if (d > 0.0f) s += o.w * d * d * d;
      }
    }
  density[i] = s;
}

// Payoffs of options on the mean price along random paths; two normal numbers a pair of steps.
__global__ void asian_paths(float* __restrict__ sums, float start, float strike, float drift, float swing, int steps) {
  __shared__ float part[8];
  unsigned path = blockIdx.x * blockDim.x + threadIdx.x;
  float x = 0.0f, total = 0.0f;
  for (int k = 0; k < steps; k += 4) {
    uint4 r = philox(make_uint4(path, k, 0, 0), make_uint2(42u, 7u));
    unsigned bits[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      float l = sqrtf(-2.0f * __logf((bits[j] + 0.5f) * 2.3283064e-10f)), s, c;
      __sincosf(bits[j + 1] * 1.4629181e-9f, &s, &c);
      x += drift + swing * l * c;
      total += __expf(x);
      x += drift + swing * l * s;
      total += __expf(x);
    }
  }
  float v = warp_sum(fmaxf(start * total / steps - strike, 0.0f));
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    v = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) v += part[w];
    sums[blockIdx.x] = v;
  }
}

// Walsh-Hadamard transforms of 4096 numbers, 256 threads: four stages at a time in registers, exchanges through shared memory.
__global__ void __launch_bounds__(256) hadamard4096(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float row[4096 + 256];
  size_t base = (size_t)blockIdx.x * 4096;
  int t = threadIdx.x;
  float v[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) v[k] = in[base + k * 256 + t];
#pragma unroll
  for (int pass = 0; pass < 3; ++pass) {
#pragma unroll
    for (int d = 1; d < 16; d <<= 1)
#pragma unroll
      for (int k = 0; k < 16; ++k)
        if (!(k & d)) {
          float a = v[k], b = v[k + d];
          v[k] = a + b;
          v[k + d] = a - b;
        }
    if (pass == 2) break;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      int i = pass == 0 ? k * 256 + t : (t >> 4) * 256 + k * 16 + (t & 15);
      row[i + (i >> 4)] = v[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      int i = pass == 0 ? (t >> 4) * 256 + k * 16 + (t & 15) : t * 16 + k;
      v[k] = row[i + (i >> 4)];
    }
  }
#pragma unroll
  for (int k = 0; k < 16; k += 4) *(float4*)(out + base + t * 16 + k) = make_float4(v[k] * 0.015625f, v[k + 1] * 0.015625f, v[k + 2] * 0.015625f, v[k + 3] * 0.015625f);
}

// A level of the Haar transform of an image: 2 x 2 values to a mean and three differences, each in its quarter.
__global__ void haar_level(const float2* __restrict__ in, float* __restrict__ out, int half_width, int half_height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= half_width || y >= half_height) return;
  float2 a = in[(size_t)2 * y * half_width + x], b = in[(size_t)(2 * y + 1) * half_width + x];
  float s = a.x + a.y, d = a.x - a.y, p = b.x + b.y, q = b.x - b.y;
  size_t width = 2 * half_width, at = (size_t)y * width + x, lower = (size_t)half_height * width;
  out[at] = 0.5f * (s + p);
  out[at + half_width] = 0.5f * (d + q);
  out[at + lower] = 0.5f * (s - p);
  out[at + lower + half_width] = 0.5f * (d - q);
}

// Derivatives of values on spectral elements of 8 x 8 x 8 points along their three axes, in double precision; 64 threads an element.
__global__ void __launch_bounds__(64) element_derivatives(const double* __restrict__ u, const double* __restrict__ matrix, double* __restrict__ out, int elements) {
  __shared__ double d[8][9], plane[8][9];
  int i = threadIdx.x & 7, j = threadIdx.x >> 3;
  size_t base = (size_t)blockIdx.x * 512, all = (size_t)elements * 512;
  d[j][i] = matrix[threadIdx.x];
  double column[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) column[k] = u[base + k * 64 + threadIdx.x];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    __syncthreads();
    plane[j][i] = column[k];
    __syncthreads();
    double r = 0.0, s = 0.0, t = 0.0;
#pragma unroll
    for (int m = 0; m < 8; ++m) {
      r += d[i][m] * plane[j][m];
      s += d[j][m] * plane[m][i];
      t += d[k][m] * column[m];
    }
    size_t at = base + k * 64 + threadIdx.x;
    out[at] = r;
    out[all + at] = s;
    out[2 * all + at] = t;
  }
}

// Inverses of many 4 x 4 matrices, a matrix a thread, by cofactors.
__global__ void inverses4(const float4* __restrict__ in, float4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 a = in[4 * (size_t)i], b = in[4 * (size_t)i + 1], c = in[4 * (size_t)i + 2], d = in[4 * (size_t)i + 3];
  float s0 = a.x * b.y - b.x * a.y, s1 = a.x * b.z - b.x * a.z, s2 = a.x * b.w - b.x * a.w, s3 = a.y * b.z - b.y * a.z, s4 = a.y * b.w - b.y * a.w, s5 = a.z * b.w - b.z * a.w;
  float c5 = c.z * d.w - d.z * c.w, c4 = c.y * d.w - d.y * c.w, c3 = c.y * d.z - d.y * c.z, c2 = c.x * d.w - d.x * c.w, c1 = c.x * d.z - d.x * c.z, c0 = c.x * d.y - d.x * c.y;
  float r = 1.0f / (s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0);
  out[4 * (size_t)i] = make_float4((b.y * c5 - b.z * c4 + b.w * c3) * r, (-a.y * c5 + a.z * c4 - a.w * c3) * r, (d.y * s5 - d.z * s4 + d.w * s3) * r, (-c.y * s5 + c.z * s4 - c.w * s3) * r);
  out[4 * (size_t)i + 1] = make_float4((-b.x * c5 + b.z * c2 - b.w * c1) * r, (a.x * c5 - a.z * c2 + a.w * c1) * r, (-d.x * s5 + d.z * s2 - d.w * s1) * r, (c.x * s5 - c.z * s2 + c.w * s1) * r);
  out[4 * (size_t)i + 2] = make_float4((b.x * c4 - b.y * c2 + b.w * c0) * r, (-a.x * c4 + a.y * c2 - a.w * c0) * r, (d.x * s4 - d.y * s2 + d.w * s0) * r, (-c.x * s4 + c.y * s2 - c.w * s0) * r);
  out[4 * (size_t)i + 3] = make_float4((-b.x * c3 + b.y * c1 - b.z * c0) * r, (a.x * c3 - a.y * c1 + a.z * c0) * r, (-d.x * s3 + d.y * s1 - d.z * s0) * r, (c.x * s3 - c.y * s1 + c.z * s0) * r);
}

// Householder reduction of many 32 x 16 matrices to triangles, a warp a matrix: a row a lane, sums by shuffles.
__global__ void __launch_bounds__(128) householder32x16(const float4* __restrict__ in, float* __restrict__ triangles, int n) {
  int lane = threadIdx.x & 31, matrix = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  if (matrix >= n) return;
  float a[16];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float4 v = in[((size_t)matrix * 32 + lane) * 4 + k];
    a[4 * k] = v.x;
    a[4 * k + 1] = v.y;
    a[4 * k + 2] = v.z;
    a[4 * k + 3] = v.w;
  }
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    float v = lane >= j ? a[j] : 0.0f, q = warp_sum(v * v), top = __shfl_sync(0xffffffffu, v, j);
    float alpha = top >= 0.0f ? -sqrtf(q) : sqrtf(q);
    if (lane == j) v -= alpha;
    float f = __fdividef(1.0f, q - alpha * top);
#pragma unroll
    for (int k = j + 1; k < 16; ++k) a[k] -= v * (f * warp_sum(v * a[k]));
    a[j] = lane < j ? a[j] : lane == j ? alpha : 0.0f;
  }
  if (lane < 16)
#pragma unroll
    for (int k = 0; k < 16; k += 4) *(float4*)(triangles + (size_t)matrix * 256 + lane * 16 + k) = make_float4(a[k], a[k + 1], a[k + 2], a[k + 3]);
}

// Linear triangles: each adds its share of the Laplacian of u to its three vertices, in double precision.
__global__ void assemble_triangles(const int* __restrict__ vertices, const float2* __restrict__ place, const float* __restrict__ u, double* __restrict__ out, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  int i = vertices[3 * t], j = vertices[3 * t + 1], k = vertices[3 * t + 2];
  float2 a = place[i], b = place[j], c = place[k];
  float e0 = c.x - b.x, f0 = c.y - b.y, e1 = a.x - c.x, f1 = a.y - c.y, e2 = b.x - a.x, f2 = b.y - a.y;
  float r = __fdividef(0.5f, fabsf(e1 * f2 - e2 * f1));
  float gx = e0 * u[i] + e1 * u[j] + e2 * u[k], gy = f0 * u[i] + f1 * u[j] + f2 * u[k];
  atomicAdd(&out[i], (double)(r * (e0 * gx + f0 * gy)));
  atomicAdd(&out[j], (double)(r * (e1 * gx + f1 * gy)));
  atomicAdd(&out[k], (double)(r * (e2 * gx + f2 * gy)));
}
}
