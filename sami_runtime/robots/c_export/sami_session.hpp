// Session, telemetry and one tick of sami_runtime in C++17: no heap, no exceptions, no text. `sami export --c` writes
// the model M: its sizes, and infer(), which computes one step.
#ifndef SAMI_SESSION_HPP
#define SAMI_SESSION_HPP

#include "sami_gate.hpp"

namespace sami {

// A session's state within an episode; a copy of it can be restored.
template <class M>
struct Memory {
  std::array<float, M::kAction> action{};    // the action executed last
  std::array<float, M::kContext> context{};  // the context inferred last
  std::array<float, M::kExtra> extra{};      // the other outputs of the last step, concatenated
  std::array<float, M::kState> state{};      // recurrent tensors, concatenated
  bool acted = false;                        // whether a step was made since the reset
};

// Steps a policy and carries its recurrent state. A refused step changes neither state nor previous action.
template <class M>
class Session {
 public:
  using Action = std::array<float, M::kAction>;
  using Ages = std::array<float, M::kSignals>;

  Session() { reset(); }

  // Begins a new episode: state and previous action take their initial values.
  void reset() {
    memories_[now_] = {};
    M::begin(memories_[now_].state.data());
    undoable_ = false;
    tick_ = 0;
  }

  // Runs the policy on one observation, and advances the state. The action counts as executed unless executed() reports
  // another one. Returns why the step was refused, or Kind::none. Age: observation age plus command delay [periods], of
  // all signals or of each; a model without lookahead ignores it and treats observations as current.
  Reason step(const Observation<M>& observation, float age = 0.0F) {
    Ages ages{};
    ages.fill(age);
    return step(observation, ages);
  }
  Reason step(const Observation<M>& observation, Ages ages) {
    undoable_ = false;
    if (const int at = not_finite(observation.values); at >= 0)
      return {Kind::refused, at, static_cast<double>(observation.values[static_cast<size_t>(at)]), 0.0};
    for (size_t s = 0; s < ages.size(); ++s) {
      if (M::kLooksAhead > 0 && M::kAging[s] && !(ages[s] >= 0.0F && ages[s] <= kMost))
        return {Kind::age, static_cast<int>(s), static_cast<double>(ages[s]), static_cast<double>(M::kLooksAhead)};
      if (!M::kAging[s]) ages[s] = 0.0F;
    }
    const Memory<M>& from = memories_[now_];
    Memory<M>& to = memories_[1 - now_];
    M::infer(observation.values.data(), ages.data(), from.action.data(), from.state.data(), to.action.data(),
             to.context.data(), to.extra.data(), to.state.data(), scratch_.data());
    if (not_finite(to.action) >= 0 || not_finite(to.context) >= 0 || not_finite(to.extra) >= 0 || not_finite(to.state) >= 0)
      return {Kind::refused, -1, 0.0, 0.0};
    to.acted = true;
    now_ = 1 - now_;
    ++tick_;
    undoable_ = true;
    return {};
  }

  // Takes back the last step and any executed() or elapse() since: the state is bit-equal to that before the step.
  // False if there is no step, or it was followed by a refused step, undo(), reset() or restore().
  bool undo() {
    if (!undoable_) return false;
    undoable_ = false;
    now_ = 1 - now_;
    --tick_;
    return true;
  }

  // Reports the action that was really executed, because the encoder infers the dynamics from executed actions.
  Reason executed(const Action& action) {
    if (const int at = not_finite(action); at >= 0)
      return {Kind::executed, at, static_cast<double>(action[static_cast<size_t>(at)]), 0.0};
    if (memories_[now_].acted) memories_[now_].action = action;
    return {};
  }

  // Lets held or skipped periods pass: the last executed action stays in force. Call it before executed().
  void elapse(int periods = 1) {
    if constexpr (M::kPastSteps > 0)
      for (int period = 0; period < std::min(periods, M::kPastSteps); ++period) {
        float* const past = memories_[now_].state.data() + M::kPastBegin;
        std::memmove(past + M::kAction, past, (M::kPastSteps - 1) * M::kAction * sizeof(float));
        std::memcpy(past, memories_[now_].action.data(), M::kAction * sizeof(float));
      }
    else
      static_cast<void>(periods);
  }

  // Holds for one period: the last executed action stays in force. False if none was executed since the reset.
  bool hold() {
    if (!memories_[now_].acted) return false;
    elapse();
    return true;
  }

  const Action& action() const { return memories_[now_].action; }
  const std::array<float, M::kContext>& context() const { return memories_[now_].context; }
  const std::array<float, M::kExtra>& extra() const { return memories_[now_].extra; }
  int tick() const { return tick_; }  // steps since the reset

  const Memory<M>& state() const { return memories_[now_]; }

  // Continues from a state() of this model; false, without any change, if it contains NaN or infinity.
  bool restore(const Memory<M>& state, int tick) {
    if (not_finite(state.action) >= 0 || not_finite(state.context) >= 0 || not_finite(state.extra) >= 0 || not_finite(state.state) >= 0)
      return false;
    undoable_ = false;
    memories_[now_] = state;
    tick_ = tick;
    return true;
  }

 private:
  static constexpr float kMost = static_cast<float>(M::kLooksAhead) + 1e-6F;

  template <size_t N>
  static int not_finite(const std::array<float, N>& values) {
    for (size_t i = 0; i < N; ++i)
      if (!std::isfinite(values[i])) return static_cast<int>(i);
    return -1;
  }

  std::array<Memory<M>, 2> memories_{};  // a step reads one and writes the other, which is current once checked
  size_t now_ = 0;
  bool undoable_ = false;
  int tick_ = 0;
  alignas(64) std::array<float, M::kScratch> scratch_{};
};

// Whether the context still moves.
enum class Phase { unknown, identifying, settled, readapting };

inline const char* name(Phase phase) {
  constexpr const char* names[] = {"unknown", "identifying", "settled", "re-adapting"};
  return names[static_cast<int>(phase)];
}

// Telemetry of one step of the policy.
struct Reading {
  int step = -1;          // index in the episode, from 0; -1 before the first step
  double speed = 0.0;     // |c_t - c_(t-1)| of the contexts; 0 at the first step
  Phase phase = Phase::unknown;  // unknown without an in-distribution reference (atlas)
  double drift = 0.0;     // |m_t - m_(t-1)| of the mean m over the atlas's window
  int nearest = -1;       // the atlas's task whose contexts are nearest to m; -1 before the atlas's step
  double distance = 0.0;  // Mahalanobis distance of m to the contexts of that task
  double score = 0.0;     // out-of-distribution score; above 1 is an alarm
  bool alarm = false;
};

// Computes a Reading of each context of a policy: its nearest training task, and an out-of-distribution score.
template <class M>
class Telemetry {
  static constexpr size_t C = M::kContext, W = M::kWindow, K = M::kTasks;

 public:
  void reset() {
    *this = {};
    if constexpr (K > 0) now.phase = Phase::identifying;
  }

  // Reads the context of the policy's next step.
  const Reading& update(const std::array<float, C>& context) {
    Reading next;
    next.step = now.step + 1;
    double squared = 0.0;
    for (size_t i = 0; i < C; ++i) {
      const double change = static_cast<double>(context[i]) - previous_[i];
      squared += change * change;
      previous_[i] = static_cast<double>(context[i]);
    }
    next.speed = next.step > 0 ? std::sqrt(squared) : 0.0;
    if constexpr (K > 0) {
      for (size_t i = 0; i < C; ++i) recent_[static_cast<size_t>(next.step) % W][i] = static_cast<double>(context[i]);
      double drifted = 0.0;
      for (size_t i = 0; i < C; ++i) {
        double sum = 0.0;
        for (size_t w = 0; w < W; ++w) sum += recent_[w][i];
        const double change = sum / static_cast<double>(W) - mean_[i];
        drifted += change * change;
        mean_[i] = sum / static_cast<double>(W);
      }
      next.drift = std::sqrt(drifted);
      next.phase = Phase::identifying;
      if (next.step >= M::kAtlasStep) {
        locate(next);
        next.alarm = next.score > 1.0;
        next.phase = phase(next);
      }
    }
    now = next;
    return now;
  }

  Reading now;

 private:
  Phase phase(const Reading& next) const {
    if (!M::kLearned) return Phase::identifying;
    if (next.alarm || next.drift > M::kFast)
      return now.phase == Phase::identifying ? Phase::identifying : Phase::readapting;
    return next.drift <= M::kSlow ? Phase::settled : now.phase;
  }

  void locate(Reading& next) const {
    double least = kInfinity;
    for (size_t task = 0; task < K; ++task) {
      double squared = 0.0;
      for (size_t row = 0; row < C; ++row) {
        double white = 0.0;
        for (size_t i = 0; i < C; ++i)
          white += M::atlas_whitening()[(task * C + row) * C + i] * (mean_[i] - M::atlas_mean()[task * C + i]);
        squared += white * white;
      }
      if (squared < least) least = squared, next.nearest = static_cast<int>(task);
    }
    next.distance = std::sqrt(least);
    next.score = next.distance / M::kThreshold;
  }

  std::array<std::array<double, C>, W> recent_{};  // step t in row t % W
  std::array<double, C> previous_{}, mean_{};
};

// One robot: session, telemetry and gate, called in the order of the Python loop.
template <class M>
class Runtime {
 public:
  // command_delay_s: time from the write of an action to its effect [s].
  explicit Runtime(const Limits<M>& limits, double command_delay_s = 0.0)
      : gate(limits), period_(limits.period), command_delay_s_(command_delay_s), deadline_s_(limits.deadline_s) {}

  // Begins an episode. False if the gate tripped and was not re-armed.
  //   period        of the caller's loop [s], which may be faster than the policy
  bool begin(double period) {
    session.reset();
    telemetry.reset();
    return gate.begin(period);
  }
  bool begin() { return begin(period_); }

  // Makes one tick of the policy: judges the observation, steps, limits, writes. If gate.tripped() is set afterwards,
  // the caller has to stop the robot.
  //   clock()       the time [s] on the clock that stamps the observations
  //   send(action)  writes to the robot, and returns the action that was really executed
  //   ticks         periods of the policy since the last tick: 1, or more if some were missed
  template <class Clock, class Send>
  const Ruling<M>& tick(const Observation<M>& observation, Clock&& clock, Send&& send, int ticks = 1) {
    const double start = clock();
    session.elapse(ticks - 1);
    reason = gate.fault(observation, clock());
    const bool stepped = !reason && answer(observation, start, clock);
    if (!stepped) session.elapse();
    const Ruling<M>& ruling =
        stepped ? gate.propose(session.action(), clock(), ticks) : gate.hold(reason, clock(), ticks);
    // The encoder reads executed actions.
    if (const auto* executed = gate.write(ruling, send)) session.executed(*executed);
    if (stepped) {
      const Reading& now = telemetry.update(session.context());
      gate.record_telemetry(now.score, now.phase == Phase::settled, now.alarm || now.phase == Phase::readapting);
    }
    return ruling;
  }

  Session<M> session;
  Telemetry<M> telemetry;
  Gate<M> gate;
  Reason reason;  // why the policy did not act at the last tick

 private:
  template <class Clock>
  bool answer(const Observation<M>& observation, double start, Clock& clock) {
    typename Session<M>::Ages ages{};
    const double now = clock();
    for (size_t s = 0; s < ages.size(); ++s)
      ages[s] = static_cast<float>((std::max(now - observation.measured(s), 0.0) + command_delay_s_) / period_);
    reason = session.step(observation, ages);
    if (reason) return false;
    const double duration = clock() - start;
    if (duration <= deadline_s_ + kRounding * period_) return true;
    session.undo();
    reason = {Kind::late, -1, duration, deadline_s_};
    return false;
  }

  double period_, command_delay_s_, deadline_s_;
};

}  // namespace sami

#endif
