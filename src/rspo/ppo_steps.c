/* The steps of `rspo.ppo.update` for a Gaussian policy, on a thread a core.
 *
 * Every thread takes a share of each minibatch, a few samples at a time, so that all that is known of them stays in its
 * core's cache; then a share of the parameters. In between threads meet, and wait without going to sleep: there are
 * thousands of meetings a second. Sums run in an order that only the number of threads changes.
 */

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
EXPORT int rspo_can_learn(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#pragma GCC target("avx2,fma")
#define BREATHE() __builtin_ia32_pause()
/* Numbers too small to be normal are zero, as for XLA: each of them would take as long as a hundred others. */
static unsigned no_tiny_numbers(void) {
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);
  return before;
}
#define AS_BEFORE(state) __builtin_ia32_ldmxcsr(state)
#elif defined(__aarch64__)
EXPORT int rspo_can_learn(void) { return 1; }
#define BREATHE() __asm__ volatile("yield")
static unsigned no_tiny_numbers(void) { return 0; } /* they take no longer there */
#define AS_BEFORE(state) (void)(state)
#else
EXPORT int rspo_can_learn(void) { return 0; } /* it would be slower than XLA */
#define BREATHE()
static unsigned no_tiny_numbers(void) { return 0; }
#define AS_BEFORE(state) (void)(state)
#endif

typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
enum { LANES = 8, TILE = 32, ROWS = 4 };

typedef struct { /* of a network: where its numbers are among all parameters */
  int inputs, outputs;
  ptrdiff_t weight, bias; /* [inputs, outputs], [outputs] */
} Layer;

typedef struct {
  int threads, patience, steps, size; /* samples of a step */
  int inputs, actions, channels, layers, parameters;
  const Layer *layer[2]; /* of the actor, of the critic */
  ptrdiff_t log_std;
  const unsigned *order; /* [steps, size]: which samples */
  const float *obs, *action, *log_prob, *advantage, *target, *counted, *learned; /* a row a sample */
  const float *rate, *unbias[2]; /* [steps]: the learning rate, Adam's corrections */
  float clip, value_coefficient, bonus, norm, decay[2], gain[2], epsilon, bounds[2];
  float *parameter, *mean, *square; /* and Adam's two moments; changed */
  float *gradient;                  /* [threads, parameters rounded up] */
  float *sums;                      /* [threads, SUMS] of the last step */
  float *memory;                    /* [threads, rspo_memory()] zeros */
  atomic_long met;
  atomic_int stopped; /* somebody will never come */
} Lesson;

enum { SURROGATE, VALUE_ERROR, KL, ENTROPY, NORM, SUMS };

/* Whoever fills in the records can tell by these whether it means the same ones. */
EXPORT const int rspo_sizes[] = {sizeof(Layer), sizeof(Lesson)};

INLINE int rounded(int n) { return (n + LANES - 1) / LANES * LANES; }
INLINE Lanes load(const float *p) { return *(const Lanes *)p; }
INLINE void store(float *p, Lanes x) { *(Lanes *)p = x; }

/* ---- products: c [m, n] += a [m, k] b [k, n]; rows of b and c have a multiple of LANES numbers, as n is one */

typedef struct {
  const float *at;
  ptrdiff_t row, column; /* how far apart */
} Matrix;

INLINE void block(const int m, const int n, int k, Matrix a, const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc) {
  Lanes sum[ROWS][2];
#pragma GCC unroll 4
  for (int i = 0; i < m; i++)
#pragma GCC unroll 2
    for (int j = 0; j < n; j++) sum[i][j] = load(c + i * ldc + LANES * j);
  for (; k; k--, a.at += a.column, b += ldb) {
    Lanes row[2];
#pragma GCC unroll 2
    for (int j = 0; j < n; j++) row[j] = load(b + LANES * j);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) {
      const float x = a.at[i * a.row];
#pragma GCC unroll 2
      for (int j = 0; j < n; j++) sum[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < m; i++)
#pragma GCC unroll 2
    for (int j = 0; j < n; j++) store(c + i * ldc + LANES * j, sum[i][j]);
}

INLINE void strip(const int n, int m, int k, Matrix a, const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc) {
  int i = 0;
  for (; i + ROWS <= m; i += ROWS, a.at += ROWS * a.row) block(ROWS, n, k, a, b, ldb, c + i * ldc, ldc);
  for (; i < m; i++, a.at += a.row) block(1, n, k, a, b, ldb, c + i * ldc, ldc);
}

static void multiply(int m, int n, int k, Matrix a, const float *b, float *c) {
  int j = 0;
  for (; j + 2 * LANES <= n; j += 2 * LANES) strip(2, m, k, a, b + j, n, c + j, n);
  if (j < n) strip(1, m, k, a, b + j, n, c + j, n);
}

/* ---- a network, a tile of samples at a time; rows of all arrays are rounded up, with zeros */

typedef struct {
  int inputs, outputs, in, out;                  /* and rounded up */
  float *weight, *turned, *bias, *dweight, *dbias; /* [inputs, out], [outputs, in], [out]; gradients */
  float *h, *dh;                                 /* [TILE, out]: what it gives, and the loss's gradient of that */
} Room;

INLINE float within(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

/* Polynomials whose ratio is nearest to tanh(x) / x in the relative sense, to within 6e-9: one division, while what
 * robot_player.c has takes three and is right for larger x too: beyond 7.9 it stays where it is, 3e-7 below one. */
INLINE float hyperbolic_tangent(float x) {
  float y = within(x, -7.9f, 7.9f), s = y * y;
  y *= 1.0f + s * (0.134506231f + s * (0.00357899506f + s * (2.20232948e-05f + s * 1.54280425e-08f)));
  return y / (1.0f + s * (0.467839511f + s * (0.0261922495f + s * (0.000342365549f + s * 8.59880834e-07f))));
}

static void take_in(const Lesson *lesson, const Layer *layer, Room *room) {
  for (int q = 0; q < lesson->layers; q++, layer++, room++) {
    const float *weight = lesson->parameter + layer->weight;
    memcpy(room->bias, lesson->parameter + layer->bias, sizeof(float) * (size_t)room->outputs);
    for (int i = 0; i < room->inputs; i++, weight += room->outputs) {
      memcpy(room->weight + i * room->out, weight, sizeof(float) * (size_t)room->outputs);
      if (q) for (int j = 0; j < room->outputs; j++) room->turned[j * room->in + i] = weight[j];
    }
    memset(room->dweight, 0, sizeof(float) * (size_t)(room->inputs * room->out));
    memset(room->dbias, 0, sizeof(float) * (size_t)room->out);
  }
}

static void forwards(int layers, Room *room, int m, const float *x) {
  for (int q = 0; q < layers; q++, x = room->h, room++) {
    for (int i = 0; i < m; i++) memcpy(room->h + i * room->out, room->bias, sizeof(float) * (size_t)room->out);
    multiply(m, room->out, room->inputs, (Matrix){x, room->in, 1}, room->weight, room->h);
    if (q + 1 < layers)
      for (int i = 0; i < m * room->out; i++) room->h[i] = hyperbolic_tangent(room->h[i]);
  }
}

INLINE void add(int n, const float *restrict x, float *restrict y) {
  for (int i = 0; i < n; i++) y[i] += x[i];
}

/* From the last layer's dh on. */
static void backwards(int layers, Room *room, int m, const float *x) {
  for (int q = layers - 1; q >= 0; q--) {
    Room *now = room + q, *before = now - 1;
    const float *seen = q ? before->h : x;
    for (int i = 0; i < m; i++) add(now->out, now->dh + i * now->out, now->dbias);
    multiply(now->inputs, now->out, m, (Matrix){seen, 1, now->in}, now->dh, now->dweight);
    if (!q) return;
    memset(before->dh, 0, sizeof(float) * (size_t)(m * now->in));
    multiply(m, now->in, now->outputs, (Matrix){now->dh, now->out, 1}, now->turned, before->dh);
    for (int i = 0; i < m * now->in; i++) before->dh[i] *= 1.0f - seen[i] * seen[i];
  }
}

static void give_back(const Lesson *lesson, const Layer *layer, const Room *room, float *gradient) {
  for (int q = 0; q < lesson->layers; q++, layer++, room++) {
    memcpy(gradient + layer->bias, room->dbias, sizeof(float) * (size_t)room->outputs);
    for (int i = 0; i < room->inputs; i++)
      memcpy(gradient + layer->weight + i * room->outputs, room->dweight + i * room->out,
             sizeof(float) * (size_t)room->outputs);
  }
}

typedef struct {
  float log_scale;  /* of the density: minus its logarithm at the mean */
  float *precision; /* 1 / deviation of each action */
} Gaussian;

/* ---- the loss of a sample, `share` of a minibatch's: what it adds to the sums, and its gradients */

static void surrogate(const Lesson *lesson, size_t sample, float share, const Gaussian *gaussian, const float *mean,
                      float *dmean, float *dlog_std, float *sums) {
  const float *action = lesson->action + sample * (size_t)lesson->actions, advantage = lesson->advantage[sample];
  float log_prob = -gaussian->log_scale;
  for (int d = 0; d < lesson->actions; d++) {
    dmean[d] = (action[d] - mean[d]) * gaussian->precision[d];
    log_prob -= dmean[d] * dmean[d] / 2;
  }
  const float log_ratio = log_prob - lesson->log_prob[sample], ratio = expf(log_ratio);
  const float clipped = within(ratio, 1 - lesson->clip, 1 + lesson->clip);
  const float free = ratio * advantage, bound = clipped * advantage, slope = free > bound ? 0 : free * share;
  sums[SURROGATE] += share * (free < bound ? free : bound);
  sums[KL] += share * (ratio - 1 - log_ratio);
  sums[ENTROPY] += share * (gaussian->log_scale + 0.5f * (float)lesson->actions);
  for (int d = 0; d < lesson->actions; d++) {
    dlog_std[d] -= slope * (dmean[d] * dmean[d] - 1) + lesson->bonus * share;
    dmean[d] *= -slope * gaussian->precision[d];
  }
}

static void value_error(const Lesson *lesson, size_t sample, float share, const float *value, float *dvalue,
                        float *sums) {
  const float *target = lesson->target + sample * (size_t)lesson->channels;
  const float *learned = lesson->learned + sample * (size_t)lesson->channels;
  for (int c = 0; c < lesson->channels; c++) {
    const float off = value[c] - target[c];
    sums[VALUE_ERROR] += share * off * off * learned[c];
    dvalue[c] = lesson->value_coefficient * share * 2 * off * learned[c];
  }
}

/* ---- a thread's share of a step */

typedef struct {
  int number;
  long met;
  Room *room[2];
  Gaussian gaussian;
  float *x, *dlog_std;
} Worker;

/* Until all threads have come as far as this one; returns whether they have. */
static int meet(Lesson *lesson, Worker *worker) {
  const long all = ++worker->met * (long)lesson->threads;
  atomic_fetch_add(&lesson->met, 1);
  for (int turn = 0; atomic_load(&lesson->met) < all; turn += turn < lesson->patience) {
    if (atomic_load(&lesson->stopped)) return 0;
    if (turn < lesson->patience) BREATHE();
    else sched_yield();
  }
  return 1;
}

INLINE int share_of(int number, int all, int threads) { return (int)((long)all * number / threads); }

static void tile(const Lesson *lesson, Worker *worker, const unsigned *order, int m, float count, float *sums) {
  const Room *actor = worker->room[0] + lesson->layers - 1, *critic = worker->room[1] + lesson->layers - 1;
  const int width = worker->room[0]->in;
  for (int i = 0; i < m; i++)
    memcpy(worker->x + i * width, lesson->obs + (size_t)order[i] * (size_t)lesson->inputs,
           sizeof(float) * (size_t)lesson->inputs);
  for (int n = 0; n < 2; n++) forwards(lesson->layers, worker->room[n], m, worker->x);
  for (int i = 0; i < m; i++) {
    const float share = lesson->counted[order[i]] / count;
    surrogate(lesson, order[i], share, &worker->gaussian, actor->h + i * actor->out, actor->dh + i * actor->out,
              worker->dlog_std, sums);
    value_error(lesson, order[i], share, critic->h + i * critic->out, critic->dh + i * critic->out, sums);
  }
  for (int n = 0; n < 2; n++) backwards(lesson->layers, worker->room[n], m, worker->x);
}

static void look_at(const Lesson *lesson, Gaussian *gaussian) {
  gaussian->log_scale = 0;
  for (int d = 0; d < lesson->actions; d++) {
    const float log_std = within(lesson->parameter[lesson->log_std + d], lesson->bounds[0], lesson->bounds[1]);
    gaussian->precision[d] = expf(-log_std);
    gaussian->log_scale += log_std + 0.918938533204672742f; /* log(2 pi) / 2 */
  }
}

/* The gradient over this thread's samples, into its row. */
static void differentiate(const Lesson *lesson, Worker *worker, const unsigned *order, float *gradient, float *sums) {
  const int begin = share_of(worker->number, lesson->size, lesson->threads);
  const int end = share_of(worker->number + 1, lesson->size, lesson->threads);
  const float *raw = lesson->parameter + lesson->log_std, low = lesson->bounds[0], high = lesson->bounds[1];
  float count = 0, own[SUMS] = {0};
  for (int i = 0; i < lesson->size; i++) count += lesson->counted[order[i]];
  if (count < 1) count = 1;
  look_at(lesson, &worker->gaussian);
  memset(worker->dlog_std, 0, sizeof(float) * (size_t)lesson->actions);
  for (int n = 0; n < 2; n++) take_in(lesson, lesson->layer[n], worker->room[n]);
  for (int i = begin; i < end; i += TILE)
    tile(lesson, worker, order + i, end - i < TILE ? end - i : TILE, count, own);
  memcpy(sums, own, sizeof own); /* which other threads have their own next to */
  for (int n = 0; n < 2; n++) give_back(lesson, lesson->layer[n], worker->room[n], gradient);
  for (int d = 0; d < lesson->actions; d++)
    gradient[lesson->log_std + d] = within(raw[d], low, high) == raw[d] ? worker->dlog_std[d] : 0;
}

/* The sum of all threads' gradients for some parameters, into the first one's row; returns its square. */
static float add_up(const Lesson *lesson, int begin, int end) {
  const int width = rounded(lesson->parameters);
  Lanes square = {0};
  float total = 0;
  for (int p = begin; p < end; p += LANES) {
    Lanes sum = load(lesson->gradient + p);
    for (int k = 1; k < lesson->threads; k++) sum += load(lesson->gradient + (ptrdiff_t)k * width + p);
    store(lesson->gradient + p, sum);
    square += sum * sum;
  }
  for (int i = 0; i < LANES; i++) total += square[i];
  return total;
}

/* Adam (Kingma and Ba, 2015). */
static void descend(Lesson *lesson, int step, int begin, int end, float scale) {
  const float b1 = lesson->decay[0], b2 = lesson->decay[1], g1 = lesson->gain[0], g2 = lesson->gain[1];
  const float epsilon = lesson->epsilon, rate = lesson->rate[step];
  const float first = 1 / lesson->unbias[0][step], second = 1 / lesson->unbias[1][step];
  const float *restrict gradient = lesson->gradient;
  float *restrict parameter = lesson->parameter, *restrict mean = lesson->mean, *restrict square = lesson->square;
  for (int p = begin; p < end; p++) {
    const float g = gradient[p] * scale;
    mean[p] = b1 * mean[p] + g1 * g;
    square[p] = b2 * square[p] + g2 * (g * g);
    parameter[p] -= rate * (mean[p] * first) / (sqrtf(square[p] * second) + epsilon);
  }
}

static void learn(Lesson *lesson, Worker *worker) {
  const int width = rounded(lesson->parameters), lanes = width / LANES;
  const int begin = share_of(worker->number, lanes, lesson->threads) * LANES;
  const int end = share_of(worker->number + 1, lanes, lesson->threads) * LANES;
  float *gradient = lesson->gradient + (ptrdiff_t)worker->number * width, *sums = lesson->sums + worker->number * SUMS;
  for (int step = 0; step < lesson->steps; step++) {
    float square = 0;
    differentiate(lesson, worker, lesson->order + (size_t)step * (size_t)lesson->size, gradient, sums);
    if (!meet(lesson, worker)) return;
    sums[NORM] = add_up(lesson, begin, end);
    if (!meet(lesson, worker)) return;
    for (int k = 0; k < lesson->threads; k++) square += lesson->sums[k * SUMS + NORM];
    const float norm = sqrtf(square);
    descend(lesson, step, begin, end < lesson->parameters ? end : lesson->parameters,
            norm < lesson->norm ? 1 : lesson->norm / norm);
    if (!meet(lesson, worker)) return;
  }
}

/* ---- memory */

/* The next n numbers from a cursor, all zero; without memory, only how many there are is counted. */
static float *next(float *memory, size_t *cursor, int n) {
  float *here = memory ? memory + *cursor : NULL;
  *cursor += (size_t)rounded(n);
  return here;
}

static size_t furnish(const Lesson *lesson, Worker *worker, float *memory) {
  size_t used = 0;
  for (int n = 0; n < 2; n++)
    for (int q = 0; q < lesson->layers; q++) {
      const Layer *layer = lesson->layer[n] + q;
      const int in = rounded(layer->inputs), out = rounded(layer->outputs);
      worker->room[n][q] = (Room){
          .inputs = layer->inputs, .outputs = layer->outputs, .in = in, .out = out,
          .weight = next(memory, &used, layer->inputs * out), .dweight = next(memory, &used, layer->inputs * out),
          .turned = next(memory, &used, q ? layer->outputs * in : 0), .bias = next(memory, &used, out),
          .dbias = next(memory, &used, out), .h = next(memory, &used, TILE * out),
          .dh = next(memory, &used, TILE * out)};
    }
  worker->x = next(memory, &used, TILE * rounded(lesson->inputs));
  worker->gaussian.precision = next(memory, &used, lesson->actions);
  worker->dlog_std = next(memory, &used, lesson->actions);
  return used;
}

/* How many numbers of memory each thread needs. */
EXPORT size_t rspo_memory(const Lesson *lesson) {
  Room rooms[2][lesson->layers];
  Worker worker = {.room = {rooms[0], rooms[1]}};
  return furnish(lesson, &worker, NULL);
}

/* All of a lesson, as one of its threads. */
EXPORT void rspo_learn(Lesson *lesson, int number) {
  Room rooms[2][lesson->layers];
  Worker worker = {.number = number, .room = {rooms[0], rooms[1]}};
  const unsigned before = no_tiny_numbers();
  furnish(lesson, &worker, lesson->memory + (size_t)number * rspo_memory(lesson));
  learn(lesson, &worker);
  AS_BEFORE(before);
}
