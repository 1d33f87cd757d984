// Kernels of the graph below: plain float32 loops that sum in the same order on every machine, the order of ONNX
// Runtime's CPU kernels (MLAS). With fused multiply-add instructions, most results are bit-equal to theirs (x86-64:
// -march=x86-64-v3 or -march=native; Cortex-M4F and later: always).

constexpr int kBlock = 32;   // outputs that one pass over the inputs accumulates
constexpr int kStride = 256; // number of inputs after which a sum is added to the output

inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <int K, int N>
void add_block(const float* __restrict x, const float* __restrict weights, float* __restrict y) {
  for (int begin = 0; begin < K; begin += kStride) {
    float sums[N] = {};
    const int end = begin + kStride < K ? begin + kStride : K;
    for (int k = begin; k < end; ++k)
      for (int j = 0; j < N; ++j) sums[j] = multiply_add(x[k], weights[k * N + j], sums[j]);
    for (int j = 0; j < N; ++j) y[j] += sums[j];
  }
}

// y += x W. W (K, N) is stored as consecutive blocks of columns.
template <int K, int N>
void add_product(const float* x, const float* weights, float* y) {
  constexpr int whole = N / kBlock * kBlock;
  for (int j = 0; j < whole; j += kBlock) add_block<K, kBlock>(x, weights + K * j, y + j);
  if constexpr (whole < N) add_block<K, N - whole>(x, weights + K * whole, y + whole);
}

template <int K, int N>
void dense(const float* x, const float* weights, const float* bias, float* y) {
  std::memcpy(y, bias, N * sizeof(float));
  add_product<K, N>(x, weights, y);
}

// y = a b of (M, K) and (K, N), if neither factor is a constant.
template <int M, int K, int N>
void product(const float* a, const float* b, float* y) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0.0F;
      for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      y[i * N + j] = sum;
    }
}

inline float clamped(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }  // NaN stays NaN

// The rational approximations of ONNX Runtime's CPU kernels (MLAS); no library call, so that loops vectorise.
inline float hyperbolic_tangent(float value) {
  const float x = clamped(value, -9.0F, 9.0F), s = x * x;
  float p = multiply_add(s, -2.76076847742355e-16F, 2.00018790482477e-13F);
  p = multiply_add(p, s, -8.60467152213735e-11F);
  p = multiply_add(p, s, 5.12229709037114e-08F);
  p = multiply_add(p, s, 1.48572235717979e-05F);
  p = multiply_add(p, s, 6.37261928875436e-04F);
  p = multiply_add(p, s, 4.89352455891786e-03F);
  float q = multiply_add(s, 1.19825839466702e-06F, 1.18534705686654e-04F);
  q = multiply_add(q, s, 2.26843463243900e-03F);
  q = multiply_add(q, s, 4.89352518554385e-03F);
  return x * p / q;
}

inline float logistic(float value) {
  const float x = clamped(value, -18.0F, 18.0F), s = x * x;
  float p = multiply_add(s, 4.37031012579801e-11F, 1.15627324459942e-07F);
  p = multiply_add(p, s, 6.08574864600143e-05F);
  p = multiply_add(p, s, 8.51377133304701e-03F);
  p = multiply_add(p, s, 2.48287947061529e-01F);
  float q = multiply_add(s, 6.10247389755681e-13F, 5.76102136993427e-09F);
  q = multiply_add(q, s, 6.29106785017040e-06F);
  q = multiply_add(q, s, 1.70198817374094e-03F);
  q = multiply_add(q, s, 1.16817656904453e-01F);
  q = multiply_add(q, s, 9.93151921023180e-01F);
  return x * p / q + 0.5F;
}

// One step of an LSTM, gates (4 H,) in ONNX's order: input, output, forget, cell.
template <int I, int H>
void lstm(const float* x, const float* hidden, const float* cell, const float* weights, const float* recurrent,
          const float* bias, float* gates, float* next_hidden, float* next_cell) {
  std::memset(gates, 0, 4 * H * sizeof(float));
  add_product<I, 4 * H>(x, weights, gates);
  add_product<H, 4 * H>(hidden, recurrent, gates);
  for (int j = 0; j < 3 * H; ++j) gates[j] = logistic(gates[j] + bias[j]);
  for (int j = 3 * H; j < 4 * H; ++j) gates[j] = hyperbolic_tangent(gates[j] + bias[j]);
  for (int j = 0; j < H; ++j) next_cell[j] = gates[2 * H + j] * cell[j] + gates[j] * gates[3 * H + j];
  for (int j = 0; j < H; ++j) next_hidden[j] = gates[H + j] * hyperbolic_tangent(next_cell[j]);
}

// One step of a GRU whose reset gate acts on the product, as torch's does; gates in ONNX's order (update, reset, new).
template <int I, int H>
void gru(const float* x, const float* hidden, const float* weights, const float* bias, const float* recurrent,
         const float* recurrent_bias, float* gates, float* recurrent_gates, float* next_hidden) {
  dense<I, 3 * H>(x, weights, bias, gates);
  dense<H, 3 * H>(hidden, recurrent, recurrent_bias, recurrent_gates);
  for (int j = 0; j < 2 * H; ++j) gates[j] = logistic(gates[j] + recurrent_gates[j]);
  for (int j = 0; j < H; ++j) {
    const float fresh = hyperbolic_tangent(gates[2 * H + j] + gates[H + j] * recurrent_gates[2 * H + j]);
    next_hidden[j] = (1.0F - gates[j]) * fresh + gates[j] * hidden[j];
  }
}

// One step of a GRU whose reset gate acts on the state, before the product; recurrent weights in two parts.
template <int I, int H>
void gru_reset_first(const float* x, const float* hidden, const float* weights, const float* bias,
                     const float* recurrent, const float* recurrent_new, const float* recurrent_bias, float* gates,
                     float* recurrent_gates, float* next_hidden) {
  dense<I, 3 * H>(x, weights, bias, gates);
  dense<H, 2 * H>(hidden, recurrent, recurrent_bias, recurrent_gates);
  for (int j = 0; j < 2 * H; ++j) gates[j] = logistic(gates[j] + recurrent_gates[j]);
  for (int j = 0; j < H; ++j) recurrent_gates[j] = gates[H + j] * hidden[j];
  dense<H, H>(recurrent_gates, recurrent_new, recurrent_bias + 2 * H, next_hidden);
  for (int j = 0; j < H; ++j) {
    const float fresh = hyperbolic_tangent(gates[2 * H + j] + next_hidden[j]);
    next_hidden[j] = (1.0F - gates[j]) * fresh + gates[j] * hidden[j];
  }
}

// Normalises each row of N numbers by its mean and variance, then scales and shifts it.
template <int M, int N>
void layer_norm(const float* x, const float* scale, const float* shift, float epsilon, float* y) {
  for (int i = 0; i < M; ++i) {
    float mean = 0.0F, variance = 0.0F;
    for (int j = 0; j < N; ++j) mean += x[i * N + j];
    mean /= static_cast<float>(N);
    for (int j = 0; j < N; ++j) variance += (x[i * N + j] - mean) * (x[i * N + j] - mean);
    const float deviation = std::sqrt(variance / static_cast<float>(N) + epsilon);
    for (int j = 0; j < N; ++j) y[i * N + j] = (x[i * N + j] - mean) / deviation * scale[j] + shift[j];
  }
}

template <int M, int N>
void softmax(const float* x, float* y) {
  for (int i = 0; i < M; ++i) {
    float largest = x[i * N], sum = 0.0F;
    for (int j = 1; j < N; ++j) largest = x[i * N + j] > largest ? x[i * N + j] : largest;
    for (int j = 0; j < N; ++j) sum += y[i * N + j] = std::exp(x[i * N + j] - largest);
    for (int j = 0; j < N; ++j) y[i * N + j] /= sum;
  }
}
