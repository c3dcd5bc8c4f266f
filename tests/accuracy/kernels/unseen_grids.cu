// Grids, particles and series: stencils of other shapes, lattices, solvers, paths, Monte Carlo.

extern "C" {

// 27-point smoothing with weights by distance.
__global__ void smooth27(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
  const float w[4] = {0.25f, 0.0625f, 0.0208333f, 0.015625f};
  float s = 0.0f;
#pragma unroll
  for (int dz = -1; dz <= 1; ++dz)
#pragma unroll
    for (int dy = -1; dy <= 1; ++dy)
#pragma unroll
      for (int dx = -1; dx <= 1; ++dx) s += w[(dx != 0) + (dy != 0) + (dz != 0)] * in[((z + dz) * ny + y + dy) * nx + x + dx];
  out[(z * ny + y) * nx + x] = s;
}

// 5-point Jacobi step in double precision; no __restrict__.
__global__ void jacobi_double(const double* in, const double* source, double* out, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= nx - 1 || y >= ny - 1) return;
  size_t i = (size_t)y * nx + x;
  out[i] = 0.25 * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] - source[i]);
}

// Half a sweep of red-black Gauss-Seidel, in place: every other point of a row.
__global__ void red_black(float* u, const float* __restrict__ f, int nx, int ny, int colour) {
  int y = blockIdx.y * blockDim.y + threadIdx.y + 1, x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + ((y + colour) & 1);
  if (x >= nx - 1 || y >= ny - 1) return;
  int i = y * nx + x;
  u[i] = 0.25f * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] - f[i]);
}

// D2Q9 lattice Boltzmann: pull, collide, one array a direction, periodic.
__global__ void lattice_step(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, float omega) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, n = nx * ny;
  if (x >= nx) return;
  int w = x ? x - 1 : nx - 1, e = x + 1 < nx ? x + 1 : 0, s = y ? y - 1 : ny - 1, t = y + 1 < ny ? y + 1 : 0;
  float f0 = in[y * nx + x], f1 = in[n + y * nx + w], f2 = in[2 * n + s * nx + x], f3 = in[3 * n + y * nx + e], f4 = in[4 * n + t * nx + x];
  float f5 = in[5 * n + s * nx + w], f6 = in[6 * n + s * nx + e], f7 = in[7 * n + t * nx + e], f8 = in[8 * n + t * nx + w];
  float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8, r = __fdividef(1.0f, rho);
  float u = (f1 - f3 + f5 - f6 - f7 + f8) * r, v = (f2 - f4 + f5 + f6 - f7 - f8) * r, q = 1.0f - 1.5f * (u * u + v * v);
  float a = rho * (1.0f / 9.0f) * omega, b = rho * (1.0f / 36.0f) * omega, keep = 1.0f - omega;
  int i = y * nx + x;
  out[i] = keep * f0 + 4.0f * a * q;
  out[n + i] = keep * f1 + a * (q + 3.0f * u + 4.5f * u * u);
  out[2 * n + i] = keep * f2 + a * (q + 3.0f * v + 4.5f * v * v);
  out[3 * n + i] = keep * f3 + a * (q - 3.0f * u + 4.5f * u * u);
  out[4 * n + i] = keep * f4 + a * (q - 3.0f * v + 4.5f * v * v);
  out[5 * n + i] = keep * f5 + b * (q + 3.0f * (u + v) + 4.5f * (u + v) * (u + v));
  out[6 * n + i] = keep * f6 + b * (q + 3.0f * (v - u) + 4.5f * (v - u) * (v - u));
  out[7 * n + i] = keep * f7 + b * (q - 3.0f * (u + v) + 4.5f * (u + v) * (u + v));
  out[8 * n + i] = keep * f8 + b * (q + 3.0f * (u - v) + 4.5f * (u - v) * (u - v));
}

// Yee scheme, update of the three electric components from the magnetic ones.
__global__ void fdtd_electric(float* __restrict__ ex, float* __restrict__ ey, float* __restrict__ ez, const float* __restrict__ hx, const float* __restrict__ hy, const float* __restrict__ hz, int nx, int ny, int nz, float c) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x < 1 || y < 1 || z < 1 || x >= nx || y >= ny) return;
  int i = (z * ny + y) * nx + x, plane = nx * ny;
  float a = hx[i], b = hy[i], d = hz[i];
  ex[i] += c * (d - hz[i - nx] - b + hy[i - plane]);
  ey[i] += c * (a - hx[i - plane] - d + hz[i - 1]);
  ez[i] += c * (b - hy[i - 1] - a + hx[i - nx]);
}

// Thomas algorithm, a system a thread, systems interleaved: neighbours lie beside each other.
__global__ void thomas_interleaved(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, float* __restrict__ x, float* __restrict__ c, int size, int systems) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems) return;
  float cp = __fdividef(upper[s], diagonal[s]), xp = __fdividef(x[s], diagonal[s]);
  c[s] = cp;
  x[s] = xp;
  for (int k = 1; k < size; ++k) {
    int i = k * systems + s;
    float a = lower[i], m = __fdividef(1.0f, diagonal[i] - a * cp);
    cp = upper[i] * m;
    xp = (x[i] - a * xp) * m;
    c[i] = cp;
    x[i] = xp;
  }
  for (int k = size - 2; k >= 0; --k) {
    int i = k * systems + s;
    xp = x[i] - c[i] * xp;
    x[i] = xp;
  }
}

// The same with each system contiguous, the coefficients one constant each: neighbours lie a system apart.
__global__ void thomas_rows(float* __restrict__ x, float lower, float diagonal, float upper, int size, int systems) {
  extern __shared__ float c[];
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems) return;
  float* p = x + (size_t)s * size;
  float cp = upper / diagonal, xp = p[0] / diagonal;
  c[threadIdx.x] = cp;
  p[0] = xp;
  for (int k = 1; k < size; ++k) {
    float m = __fdividef(1.0f, diagonal - lower * cp);
    cp = upper * m;
    xp = (p[k] - lower * xp) * m;
    c[k * blockDim.x + threadIdx.x] = cp;
    p[k] = xp;
  }
  for (int k = size - 2; k >= 0; --k) {
    xp = p[k] - c[k * blockDim.x + threadIdx.x] * xp;
    p[k] = xp;
  }
}

// One step of all-pairs shortest paths.
__global__ void floyd_step(int* distance, int n, int k) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (j >= n) return;
  int through = distance[i * n + k] + distance[k * n + j];
  if (through < distance[i * n + j]) distance[i * n + j] = through;
}

// One step of an LU factorisation without pivots: the rows below row k.
__global__ void lu_step(float* a, int n, int k) {
  int j = blockIdx.x * blockDim.x + threadIdx.x + k + 1, i = blockIdx.y * blockDim.y + threadIdx.y + k + 1;
  if (i >= n || j >= n) return;
  a[(size_t)i * n + j] -= a[(size_t)i * n + k] * a[(size_t)k * n + j];
}

// Charges of particles to the four nearest points of a grid.
__global__ void deposit(const float2* __restrict__ position, const float* __restrict__ charge, float* __restrict__ grid, int nx, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 p = position[i];
  float q = charge[i];
  int x = (int)p.x, y = (int)p.y;
  float fx = p.x - x, fy = p.y - y;
  float* g = grid + y * nx + x;
  atomicAdd(g, q * (1.0f - fx) * (1.0f - fy));
  atomicAdd(g + 1, q * fx * (1.0f - fy));
  atomicAdd(g + nx, q * (1.0f - fx) * fy);
  atomicAdd(g + nx + 1, q * fx * fy);
}

// Lennard-Jones forces from neighbour lists, lists transposed so that lanes read side by side.
__global__ void pair_forces(const float4* __restrict__ position, const int* __restrict__ neighbours, float4* __restrict__ force, int each, int n, float cutoff2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 me = position[i];
  float fx = 0.0f, fy = 0.0f, fz = 0.0f;
  for (int k = 0; k < each; ++k) {
    float4 o = position[neighbours[(size_t)k * n + i]];
    float dx = me.x - o.x, dy = me.y - o.y, dz = me.z - o.z, r2 = dx * dx + dy * dy + dz * dz + 1e-3f;
    float s = __fdividef(1.0f, r2), s6 = s * s * s, f = r2 < cutoff2 ? s6 * (48.0f * s6 - 24.0f) * s : 0.0f;
    fx += f * dx;
    fy += f * dy;
    fz += f * dz;
  }
  force[i] = make_float4(fx, fy, fz, 0.0f);
}

// Points in the quarter circle by a linear congruential generator a thread; sums of a block added by one atomic.
__global__ void count_in_circle(unsigned long long* __restrict__ total, int trials) {
  unsigned s = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 12345u;
  int hits = 0;
  for (int k = 0; k < trials; ++k) {
    s = 1664525u * s + 1013904223u;
    float x = (s >> 8) * 5.9604645e-8f;
    s = 1664525u * s + 1013904223u;
    float y = (s >> 8) * 5.9604645e-8f;
    hits += x * x + y * y < 1.0f;
  }
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  hits = __reduce_add_sync(~0u, hits);
  if ((threadIdx.x & 31) == 0) atomicAdd(&sum, hits);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(total, (unsigned long long)sum);
}

// Escape times: bound by arithmetic, warps of very different lengths.
__global__ void mandelbrot(unsigned short* __restrict__ out, int width, int height, float x0, float y0, float step, int limit) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  float cx = x0 + px * step, cy = y0 + py * step, x = 0.0f, y = 0.0f;
  int k = 0;
  while (k < limit && x * x + y * y < 4.0f) {
    float t = x * x - y * y + cx;
    y = 2.0f * x * y + cy;
    x = t;
    ++k;
  }
  out[py * width + px] = (unsigned short)k;
}

// Black-Scholes prices of calls and puts.
__device__ __forceinline__ float normal(float d) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float c = 0.39894228f * expf(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0.0f ? 1.0f - c : c;
}

__global__ void black_scholes(const float* __restrict__ price, const float* __restrict__ strike, const float* __restrict__ years, float* __restrict__ call, float* __restrict__ put, float rate, float volatility, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float s = price[i], x = strike[i], t = years[i], root = sqrtf(t);
    float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root), d2 = d1 - volatility * root;
    float n1 = normal(d1), n2 = normal(d2), e = x * expf(-rate * t);
    call[i] = s * n1 - e * n2;
    put[i] = e * (1.0f - n2) - s * (1.0f - n1);
  }
}

// Queens on a board: each thread counts what follows from its first three rows, with a stack of its own.
__global__ void queens(unsigned* __restrict__ solutions, int size) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, rest = t;
  if (t >= size * size * size) return;
  unsigned all = (1u << size) - 1, count = 0;
  unsigned columns[16], left[16], right[16], open[16];
  unsigned c = 0, l = 0, r = 0;
  bool legal = true;
  for (int k = 0; k < 3; ++k) {
    unsigned bit = 1u << rest % size;
    rest /= size;
    legal = legal && !(bit & (c | l | r));
    c |= bit;
    l = (l | bit) << 1;
    r = (r | bit) >> 1;
  }
  if (legal) {
    int row = 3;
    columns[3] = c;
    left[3] = l;
    right[3] = r;
    open[3] = all & ~(c | l | r);
    while (row >= 3) {
      if (!open[row]) { --row; continue; }
      unsigned bit = open[row] & -open[row];
      open[row] ^= bit;
      if (row == size - 1) { ++count; continue; }
      columns[row + 1] = columns[row] | bit;
      left[row + 1] = (left[row] | bit) << 1;
      right[row + 1] = (right[row] | bit) >> 1;
      ++row;
      open[row] = all & ~(columns[row] | left[row] | right[row]);
    }
  }
  solutions[t] = count;
}

// Product of spectra, four complex numbers of two floats a thread, scaled.
__global__ void multiply_spectra(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ c, float scale, int n) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
#pragma unroll
  for (int k = 0; k < 2; ++k, ++i)
    if (i < n) {
      float4 u = a[i], v = b[i];
      c[i] = make_float4((u.x * v.x - u.y * v.y) * scale, (u.x * v.y + u.y * v.x) * scale, (u.z * v.z - u.w * v.w) * scale, (u.z * v.w + u.w * v.z) * scale);
    }
}
}
