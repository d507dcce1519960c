/* Plays a planar robot of MuJoCo's: asks the policy, steps the engine, writes down what was seen, without Python.
 *
 * `rspo.compiled` fills in the records below and hands `rspo_play` to the engine's `mjb_apply`, which catches the
 * engine's errors. Of the engine only functions are called, by their addresses, so none of its headers is needed.
 * The policy's sums run in one order and nothing is contracted, so vector instructions or not change no bit of them.
 */

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORS __attribute__((target_clones("avx2", "default"))) /* whichever the machine has */
#else
#define VECTORS
#endif

typedef struct mjModel_ mjModel;
typedef struct mjData_ mjData;

typedef struct {
  int inputs, outputs;
  const float *weight; /* [inputs, outputs] */
  const float *bias;   /* [outputs]; the last layer's is in `added` */
} Layer;

typedef struct { /* what all robots of a batch share */
  void (*step)(const mjModel *, mjData *);
  void (*get_state)(const mjModel *, const mjData *, double *, int);
  void (*set_state)(const mjModel *, mjData *, const double *, int);
  int seen, driven;               /* bits of these states: positions and velocities; controls */
  int size, actions, frame_skip;  /* of the state, of an action, engine's steps in one of ours */
  int layers;
  const Layer *layer;
  const float *mean, *deviation;  /* of observations, or null: they are not normalised */
  float clip;                     /* of normalised observations */
  const float *low, *high, *middle, *half; /* from the policy's units to the engine's */
  const double *healthy[2];       /* bounds of all of the state but its first number, or null: it cannot fall */
  const double *shown[2];         /* to which they are clipped before they are shown */
} Task;

typedef struct { /* one robot; row t of an array is `episodes` times its width after row 0 */
  const Task *task;
  int episodes, t, until, fallen; /* once it has fallen it lies still */
  float *obs, *action;            /* [T + 1] and [T] rows */
  const float *added;             /* [T] rows: to the last layer's product, its bias and the noise */
  double *way, *states;           /* [T] rows: along the track in a step; the state after it, or null */
  float *scratch[2];              /* the widest layer's inputs */
  double *state, *ctrl;
} Robot;

/* Whoever fills in the records can tell by these whether it means the same ones. */
EXPORT const int rspo_sizes[] = {sizeof(Layer), sizeof(Task), sizeof(Robot)};

static float within(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

/* Lambert's continued fraction for a quarter of x, doubled twice: right to within six units of the last place. A loop
 * over it becomes vector instructions, which a call of a library's would not. */
static float hyperbolic_tangent(float x) {
  float y = within(x, -9.01f, 9.01f) * 0.25f, s = y * y;
  float t = y * (135135.0f + s * (17325.0f + s * (378.0f + s)));
  t /= 135135.0f + s * (62370.0f + s * (3150.0f + s * 28.0f));
  t = 2.0f * t / (1.0f + t * t);
  return 2.0f * t / (1.0f + t * t);
}

static void multiply(const Layer *layer, const float *x, const float *restrict start, float *restrict y) {
  const int n = layer->outputs;
  for (int j = 0; j < n; j++) y[j] = start[j];
  for (int i = 0; i < layer->inputs; i++) {
    const float *restrict row = layer->weight + (ptrdiff_t)i * n;
    for (int j = 0; j < n; j++) y[j] += x[i] * row[j];
  }
}

VECTORS static void ask(const Robot *robot, const float *obs, const float *added, float *action) {
  const Task *task = robot->task;
  const Layer *layer = task->layer, *last = layer + task->layers - 1;
  float *x = robot->scratch[0], *y = robot->scratch[1];
  for (int i = 0; i < layer->inputs; i++)
    x[i] = task->mean ? within((obs[i] - task->mean[i]) / task->deviation[i], -task->clip, task->clip) : obs[i];
  for (; layer < last; layer++) {
    float *before = x;
    multiply(layer, x, layer->bias, y);
    for (int j = 0; j < layer->outputs; j++) y[j] = hyperbolic_tangent(y[j]);
    x = y;
    y = before;
  }
  multiply(last, x, added, action);
}

static void simulate(const Robot *robot, const mjModel *m, mjData *d, const float *action) {
  const Task *task = robot->task;
  for (int j = 0; j < task->actions; j++)
    robot->ctrl[j] = within(task->middle[j] + task->half[j] * action[j], task->low[j], task->high[j]);
  task->set_state(m, d, robot->ctrl, task->driven);
  for (int i = 0; i < task->frame_skip; i++) task->step(m, d);
  task->get_state(m, d, robot->state, task->seen);
}

/* What is shown of the state; returns whether it has fallen. */
static int look(const Robot *robot, float *obs) {
  const Task *task = robot->task;
  int fallen = 0;
  for (int i = 0; i + 1 < task->size; i++) {
    double s = robot->state[i + 1], low = task->shown[0][i], high = task->shown[1][i];
    if (task->healthy[0] && !(task->healthy[0][i] < s && s < task->healthy[1][i])) fallen = 1;
    obs[i] = (float)(s < low ? low : s > high ? high : s);
  }
  return fallen;
}

/* From step t on until a given one, or until the robot falls in the step before t. */
EXPORT void rspo_play(const mjModel *m, mjData *d, int sim, void *argument) {
  Robot *robot = argument;
  const Task *task = robot->task;
  const int lay = robot->fallen, width = task->size - 1;
  (void)sim;
  task->get_state(m, d, robot->state, task->seen);
  while (robot->t < robot->until && robot->fallen == lay) {
    const ptrdiff_t row = (ptrdiff_t)robot->t++ * robot->episodes;
    float *obs = robot->obs + row * width, *next = obs + (ptrdiff_t)robot->episodes * width;
    float *action = robot->action + row * task->actions;
    const double x = robot->state[0];
    ask(robot, obs, robot->added + row * task->actions, action);
    if (lay) {
      for (int i = 0; i < width; i++) next[i] = obs[i];
    } else {
      simulate(robot, m, d, action);
      robot->fallen = look(robot, next);
    }
    robot->way[row] = robot->state[0] - x;
    if (robot->states)
      for (int i = 0; i < task->size; i++) robot->states[row * task->size + i] = robot->state[i];
  }
}
