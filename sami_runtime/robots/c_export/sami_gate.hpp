// The safety gate of sami_runtime in C++17: no heap, no exceptions, no text. Compiled with -ffp-contract=off, it is
// bit-equal to the Python gate on gate_cases.csv (gate_table.cpp). The rules, their order and their names are those of
// sami_runtime/safety: watch.py judges observations, limiter.py shapes actions, gate.py decides. Use a gate from one
// thread only. It lacks sensor-bias calibration (`known`), which the export rejects, and limits of the body.
// M is a model: kAction and kObserved count the elements of the action and of the observation, kSignals its signals,
// kWrites the writes by which a position may be late, for a workspace: max_age_s times the loop's rate, and 2 more;
// signal s has the elements from kSignalBegin[s] up to, but without, kSignalBegin[s + 1].
#ifndef SAMI_GATE_HPP
#define SAMI_GATE_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(_M_FP_FAST)
#error "the gate rejects NaN and infinity; -ffast-math and -ffinite-math-only would let them through: leave them out"
#endif

namespace sami {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr float kInfinityF = std::numeric_limits<float>::infinity();
inline constexpr double kRounding = 1e-6;        // relative excess over a time limit that counts as rounding
inline constexpr double kJumpRounding = 1e-5;    // the same over a jump's limit, by rounding of float32
inline constexpr double kPausePeriods = 2.0;     // longest elapsed time [periods] that a step may use
inline constexpr double kUnlimited = 1e100;      // an acceleration [unit/s^2] from here on does not limit
inline constexpr double kShortestPeriods = 0.5;  // shortest time [periods] over which a speed is measured
inline constexpr double kParked = 0.01;          // share of the bounds' range by which a robot may start outside

// What happens if an observation is refused.
enum class Then { hold, rest, stop };

// Why an observation is refused, there is no new action, or the gate trips.
enum class Kind {
  none, age, order, frozen, alarm, deadline, ranges, inside, bounds, jump,  // rules on observations
  refused,    // the policy refused an observation, or its action is not finite
  late,       // the policy's output came after its deadline
  missed, pause,
  start,      // the neutral action or a workspace position is not known, or the robot starts beyond the bounds
  fallback,   // the fallback failed
  executed,   // the robot reports an executed action that is not finite
  other       // a caller's own reason, or the limits computed an action that is not finite
};

inline const char* name(Kind kind) {
  constexpr const char* names[] = {"none", "age", "order", "frozen", "alarm", "deadline", "ranges", "inside", "bounds",
                                   "jump", "refused", "late", "missed", "pause", "start", "fallback", "executed",
                                   "other"};
  return names[static_cast<int>(kind)];
}

struct Reason {
  Kind kind = Kind::none;
  int at = -1;            // index of the observation's element or signal, or of the action's element; -1: none
  double value = 0.0;     // the measured value
  double allowed = 0.0;   // the least or most that is allowed
  explicit operator bool() const { return kind != Kind::none; }
};

// A limit that changed an action. The first three concern all elements.
enum class Limit { rest, stop, blend_in, bounds, workspace, acceleration, gentle, rate };

inline const char* name(Limit limit) {
  constexpr const char* names[] = {"rest", "stop", "blend-in", "bounds", "workspace", "acceleration", "gentle", "rate"};
  return names[static_cast<int>(limit)];
}

struct Change {
  Limit limit;
  int element;  // of the action; -1: all
};

// Every limit that changed an action, in the order in which they were applied.
template <int A>
struct Changes {
  std::array<Change, 6 * A + 3> list{};
  int count = 0;

  void add(Limit limit, int element = -1) { list[static_cast<size_t>(count++)] = {limit, element}; }
  bool has(Limit limit, int element, int until) const {
    for (int i = 0; i < until; ++i)
      if (list[static_cast<size_t>(i)].limit == limit && list[static_cast<size_t>(i)].element == element) return true;
    return false;
  }
};

// An observation: its numbers in the contract's order, and when they were measured [s].
template <class M>
struct Observation {
  std::array<float, M::kObserved> values{};
  double time = 0.0;
  bool by_signal = false;                    // whether each signal has its own time
  std::array<double, M::kSignals> times{};

  double measured(size_t signal) const { return by_signal ? times[signal] : time; }
};

// The limits, with a value for each element or signal. A model's limits() returns those of its file and limits.toml.
template <class M>
struct Limits {
  template <class T>
  using Action = std::array<T, M::kAction>;
  template <class T>
  using Observed = std::array<T, M::kObserved>;

  template <class Array, class T>
  static constexpr Array all(T value) {
    Array array{};
    for (auto& number : array) number = value;
    return array;
  }

  double period = 0.0;  // of the policy [s]
  double deadline_s = kInfinity;  // longest time [s] from the beginning of a tick to the output
  double max_pause_s = kInfinity;
  int hold_ticks = 3, stop_after = 10;
  double blend_in_s = 0.0;
  Action<float> low = all<Action<float>>(-kInfinityF), high = all<Action<float>>(kInfinityF);
  Action<double> rate = all<Action<double>>(kInfinity), acceleration = all<Action<double>>(kInfinity);
  bool has_rest = false;
  Action<float> rest{};   // the neutral action, if has_rest
  int rest_signal = -1;   // the signal that measures the neutral action; -1: none
  std::array<double, M::kSignals> max_age_s = all<std::array<double, M::kSignals>>(kInfinity);
  std::array<int, M::kSignals> frozen{};  // number of equal values in a row that mean a stuck sensor; 0: not judged
  Observed<float> inside_low = all<Observed<float>>(-kInfinityF), inside_high = all<Observed<float>>(kInfinityF);
  Observed<Then> inside_then{};
  Observed<float> bounds_low = all<Observed<float>>(-kInfinityF), bounds_high = all<Observed<float>>(kInfinityF);
  Observed<Then> bounds_then{};
  Observed<double> jump = all<Observed<double>>(kInfinity);
  Observed<Then> jump_then{};
  // The widened training ranges, up to the first observation that passes and from then on.
  Observed<float> first_low = all<Observed<float>>(-kInfinityF), first_high = all<Observed<float>>(kInfinityF);
  Observed<float> later_low = all<Observed<float>>(-kInfinityF), later_high = all<Observed<float>>(kInfinityF);
  Action<int> moves = all<Action<int>>(-1);  // the element of the observation that it moves, if limited; -1: none
  Action<double> moves_scale{};              // its displacement by an action of 1 in a period of the policy
  Action<double> workspace_low{}, workspace_high{};
  int alarm_steps = 0;  // number of steps in a row with a score above alarm_score for alarm_then; 0: not judged
  double alarm_score = 1.0;
  Then alarm_then = Then::stop;
  int adapt_steps = 0;  // most steps from a detected change to a settled context; 0: not judged
  double adapt_gentle = 1.0;  // share of the rate that is allowed until the context has settled
  Then adapt_then = Then::hold;
};

// The gate's decision at one tick.
template <class M>
struct Ruling {
  bool writes = false;  // false: nothing is written, to stop or because no action was executed yet
  std::array<float, M::kAction> action{};
  Changes<M::kAction> limited_by;
  Reason reason;        // why this ruling tripped the gate
  Reason held;          // why there was no new action
  bool fallback = false;
  double time = 0.0;
  unsigned long long number = 0;  // counts the gate's rulings of all episodes: a clock may begin at 0 in each
};

template <class M>
class Gate {
  static constexpr size_t A = M::kAction, D = M::kObserved, S = M::kSignals;

 public:
  using Action = std::array<float, A>;
  // Stores its action in `action` and returns true, or false if it failed. It must not block.
  using Fallback = bool (*)(void* context, const Observation<M>& observation, double now, Action& action);

  explicit Gate(const Limits<M>& limits) : limits_(limits) {
    for (size_t i = 0; i < A; ++i) {
      rates_ = rates_ || std::isfinite(limits_.rate[i]);
      accelerates_ = accelerates_ || limits_.acceleration[i] < kUnlimited;
      workspace_ = workspace_ || limits_.moves[i] >= 0;
    }
    fresh(limits_.period);
  }

  // The fallback acts after hold_ticks, until stop_after. Without one, the neutral action is approached.
  void set_fallback(Fallback fallback, void* context) { fallback_ = fallback, fallback_context_ = context; }

  // Begins an episode, in which nothing has been executed yet. False if the gate tripped and was not re-armed.
  bool begin(double period) {
    armed_ = !tripped_;
    if (armed_) fresh(period);
    return armed_;
  }
  bool begin() { return begin(limits_.period); }

  // Latches the gate: it writes nothing more, and the caller stops the robot. The first reason is reported.
  void trip(Reason reason) {
    if (!tripped_) tripped_ = reason;
    armed_ = false;
  }

  // Allows the next begin(). A person should decide that.
  void rearm() { tripped_ = {}; }

  // Why the gate is latched; Kind::none while it is armed.
  const Reason& tripped() const { return tripped_; }

  // Returns why the policy must not act on an observation; Kind::none if it may. The next hold() does what the limits
  // set for this case: hold, rest or stop.
  Reason fault(const Observation<M>& observation, double now) {
    observation_ = observation;
    observed_ = true;
    then_ = Then::hold;
    if (const Reason reason = judge(observation, now)) return reason;
    learn_rest();
    return workspace_ ? learn_places(now) : Reason{};
  }

  // Stores the telemetry of a step of the policy: its out-of-distribution score, whether the context has settled, and
  // whether the dynamics changed.
  void record_telemetry(double score, bool settled, bool changed) {
    score_ = score;
    alarms_ = score > limits_.alarm_score ? alarms_ + 1 : 0;
    if (settled) {
      adapting_ = -1;
    } else if (adapting_ >= 0) {
      ++adapting_;
    } else if (changed) {
      adapting_ = 0;
    }
  }

  // Rules on a new action of the policy; ticks: its periods since the last ruling, 1, or more if some were missed. An
  // action that is not finite is never clamped: the tick counts as one without a new action.
  const Ruling<M>& propose(const Action& action, double now, int ticks = 1) {
    if (const Reason reason = not_finite(action)) return hold(reason, now, ticks);
    if (paused(now)) return ruling_;
    const Reason missed{Kind::missed, -1, static_cast<double>(ticks - 1), 0.0};
    if (ticks > 1 && limits_.max_pause_s < kInfinity && count(ticks - 1, missed)) return ruling_;
    hold_count_ = 0;
    if (!begin_blend(taken_over_ && has_written_)) return stop({Kind::start, -1, 0.0, 0.0});
    taken_over_ = false;
    return aim(action);
  }

  // Rules on an action of a person who drives in place of the policy; all limits but the blend-in apply.
  const Ruling<M>& command(const Action& action, double now) {
    if (const Reason reason = not_finite(action)) return hold(reason, now);
    if (paused(now)) return ruling_;
    hold_count_ = 0;
    return drive(action);
  }

  // Rules on a tick at which a person pauses the robot: approaches the neutral action, and resets the stop_after count.
  const Ruling<M>& rest(double now) {
    if (paused(now)) return ruling_;
    hold_count_ = 0;
    if (!has_written_) return ruling_;
    return rest_known() ? drive(rest_) : stop({Kind::start, -1, 0.0, 0.0});
  }

  // Rules on a tick between two of the policy's: continues towards its last action, or repeats it once reached.
  const Ruling<M>& stand(double now) {
    if (paused(now)) return ruling_;
    if (!has_target_) return standing();
    shape(target_);
    return ruling_;
  }

  // Rules on a tick without a new action: repeats the last one; after hold_ticks uses the fallback, or rests. After
  // stop_after periods in a row without a new action the gate trips.
  const Ruling<M>& hold(Reason reason, double now, int ticks = 1) {
    const bool waited = paused(now);
    ruling_.held = reason;
    if (waited || count(ticks, reason)) return ruling_;
    if (then_ == Then::stop) return stop(reason);
    has_target_ = false;
    const bool waits = hold_count_ <= limits_.hold_ticks && then_ != Then::rest;
    if (!has_written_ || waits) return standing();
    if (fallback_ != nullptr && then_ != Then::rest) {
      Action proposal{};
      if (!observed_ || !fallback_(fallback_context_, observation_, now, proposal) || not_finite(proposal))
        return stop({Kind::fallback, -1, 0.0, 0.0});
      drive(proposal);
      ruling_.fallback = true;
      if (limits_.rest_signal >= 0) {  // what was measured last is from before the fallback
        rest_ = ruling_.action;
        measured_rest_ = true;
      }
      return ruling_;
    }
    if (!rest_known()) return standing();
    ruling_.limited_by.add(Limit::rest);
    reset_blend();
    return aim(rest_);
  }

  // Calls send(action) and returns the executed action that it reports; null if nothing was written, or not finite. Of
  // rulings, only the latest one of this episode is written.
  template <class Send>
  const Action* write(const Ruling<M>& ruling, Send&& send) {
    if (!ruling.writes || !armed_ || ruling.number != rulings_) return nullptr;
    if (not_finite(ruling.action)) {  // never write NaN or infinity to a robot, whatever the cause
      trip({Kind::other, -1, 0.0, 0.0});
      return nullptr;
    }
    const double elapsed = record_write(ruling.action, ruling.time);
    executed_ = send(ruling.action);
    if (const Reason reason = not_finite(executed_)) {
      trip({Kind::executed, reason.at, reason.value, 0.0});
      return nullptr;
    }
    if (!workspace_) return &executed_;
    for (size_t i = 0; i < A; ++i) {
      since_[i] = since_[i] + last_[i] * elapsed / limits_.period;
      last_[i] = static_cast<double>(executed_[i]);
    }
    const auto at = static_cast<size_t>(commands_ % M::kWrites);
    command_[at] = executed_;
    command_at_[at] = ruling.time;
    commands_ = commands_ + 1 < 2 * M::kWrites ? commands_ + 1 : M::kWrites;  // full, at the same place of the ring
    return &executed_;
  }

 private:
  static bool unequal(float a, float b) { return a < b || a > b; }
  static bool unequal(double a, double b) { return a < b || a > b; }
  template <class T>
  static T cut(T value, T low, T high) {  // like numpy's clip, also if low is above high
    return std::min(std::max(value, low), high);
  }

  Reason not_finite(const Action& action) const {
    for (size_t i = 0; i < A; ++i)
      if (!std::isfinite(action[i])) return {Kind::refused, static_cast<int>(i), static_cast<double>(action[i]), 0.0};
    return {};
  }

  void fresh(double period) {
    tick_period_ = period;
    ++rulings_;
    has_written_ = has_target_ = taken_over_ = observed_ = blends_ = false;
    written_at_ = blended_ = score_ = 0.0;
    hold_count_ = alarms_ = commands_ = 0;
    adapting_ = -1;
    then_ = Then::hold;
    newest_by_signal_.fill(-kInfinity);
    ruled_at_ = kInfinity;
    same_.fill(0);
    jump_ticks_.fill(0);
    jumped_from_.fill(std::numeric_limits<double>::quiet_NaN());
    jump_stamps_.fill(std::numeric_limits<double>::quiet_NaN());
    passed_ = false;
    place_.fill(std::numeric_limits<double>::quiet_NaN());
    measured_rest_ = false;
    rest_ = limits_.rest;
    speed_.fill(0.0);
    since_.fill(0.0);
    last_.fill(0.0);
  }

  // Observations: the rules of watch.py, in their order.

  Reason judge(const Observation<M>& observation, double now) {
    Reason reason = judge_age(observation, now);
    if (!reason) reason = judge_order(observation);
    if (!reason) reason = judge_frozen(observation);
    if (!reason) reason = judge_world(observation);  // a stricter rule of the context comes first, or an equal one
    if (limits_.adapt_steps > 0 && adapting_ > limits_.adapt_steps && (!reason || limits_.adapt_then >= then_)) {
      then_ = limits_.adapt_then;
      reason = {Kind::deadline, -1, static_cast<double>(adapting_), static_cast<double>(limits_.adapt_steps)};
    }
    if (limits_.alarm_steps > 0 && alarms_ >= limits_.alarm_steps && (!reason || limits_.alarm_then >= then_)) {
      then_ = limits_.alarm_then;
      reason = {Kind::alarm, -1, score_, limits_.alarm_score};
    }
    return reason;
  }

  Reason judge_world(const Observation<M>& observation) {
    for (Then then : {Then::stop, Then::rest, Then::hold}) {  // a rule that holds must not hide one that stops
      Reason reason = then == Then::hold ? judge_ranges(observation) : Reason{};
      if (!reason)
        reason = judge_span(Kind::inside, observation, limits_.inside_low, limits_.inside_high, limits_.inside_then, then);
      if (!reason)
        reason = judge_span(Kind::bounds, observation, limits_.bounds_low, limits_.bounds_high, limits_.bounds_then, then);
      if (!reason) reason = judge_jump(observation, then);
      if (reason) {
        then_ = then;
        return reason;
      }
    }
    return {};
  }

  Reason judge_age(const Observation<M>& observation, double now) const {
    for (size_t s = 0; s < S; ++s) {
      const double age = now - observation.measured(s);
      if (!(std::abs(age) <= limits_.max_age_s[s] * (1 + kRounding)))  // so that NaN counts as too old
        return {Kind::age, static_cast<int>(s), age, limits_.max_age_s[s]};
    }
    return {};
  }

  Reason judge_order(const Observation<M>& observation) {
    std::array<double, S> times = observation.times;
    if (!observation.by_signal) times.fill(observation.time);
    for (size_t s = 0; s < S; ++s)
      if (newest_by_signal_[s] - times[s] > 0.0)
        return {Kind::order, observation.by_signal ? static_cast<int>(s) : -1, times[s], newest_by_signal_[s]};
    newest_by_signal_ = times;
    return {};
  }

  Reason judge_frozen(const Observation<M>& observation) {
    for (size_t s = 0; s < S; ++s) {
      if (limits_.frozen[s] == 0) continue;
      const auto begin = static_cast<size_t>(M::kSignalBegin[s]), end = static_cast<size_t>(M::kSignalBegin[s + 1]);
      const size_t bytes = (end - begin) * sizeof(float);
      const bool equal = same_[s] > 0 && std::memcmp(&observation.values[begin], &repeated_[begin], bytes) == 0;
      same_[s] = equal ? same_[s] + 1 : 1;
      std::memcpy(&repeated_[begin], &observation.values[begin], bytes);
      if (same_[s] >= limits_.frozen[s])
        return {Kind::frozen, static_cast<int>(s), static_cast<double>(same_[s]), static_cast<double>(limits_.frozen[s] - 1)};
    }
    return {};
  }

  template <class Floats>
  static Reason beyond(Kind kind, const Observation<M>& observation, const Floats& low, const Floats& high, size_t i) {
    const float value = observation.values[i];
    if (!std::isfinite(value) || (value >= low[i] && value <= high[i])) return {};
    return {kind, static_cast<int>(i), static_cast<double>(value), static_cast<double>(value < low[i] ? low[i] : high[i])};
  }

  Reason judge_ranges(const Observation<M>& observation) {
    const auto &low = passed_ ? limits_.later_low : limits_.first_low, &high = passed_ ? limits_.later_high : limits_.first_high;
    for (size_t i = 0; i < D; ++i)
      if (const Reason reason = beyond(Kind::ranges, observation, low, high, i)) return reason;
    const auto &values = observation.values;
    passed_ = passed_ || std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    return {};
  }

  template <class Floats, class Thens>
  Reason judge_span(Kind kind, const Observation<M>& observation, const Floats& low, const Floats& high, const Thens& thens,
                    Then then) const {
    for (size_t i = 0; i < D; ++i)
      if (thens[i] == then)
        if (const Reason reason = beyond(kind, observation, low, high, i)) return reason;
    return {};
  }

  // Compares with the last observation that passed: a single outlier is skipped, and a value that stays away is
  // accepted as soon as it could have been reached.
  Reason judge_jump(const Observation<M>& observation, Then then) {
    const double ticks = ++jump_ticks_[static_cast<size_t>(then)];
    for (size_t s = 0; s < S; ++s)
      for (size_t i = begin_of(s); i < begin_of(s + 1); ++i) {
        if (limits_.jump_then[i] != then || !(limits_.jump[i] < kInfinity)) continue;
        const double periods = std::fmax(ticks, (observation.measured(s) - jump_stamps_[i]) / limits_.period);
        const double change = std::abs(static_cast<double>(observation.values[i]) - jumped_from_[i]);
        const double most = limits_.jump[i] * periods;
        if (std::isfinite(change) && change > most * (1 + kJumpRounding))
          return {Kind::jump, static_cast<int>(i), change, most};
      }
    for (size_t s = 0; s < S; ++s)
      for (size_t i = begin_of(s); i < begin_of(s + 1); ++i)
        if (limits_.jump_then[i] == then && std::isfinite(observation.values[i])) {
          jumped_from_[i] = static_cast<double>(observation.values[i]);
          jump_stamps_[i] = observation.measured(s);
        }
    jump_ticks_[static_cast<size_t>(then)] = 0;
    return {};
  }

  static size_t begin_of(size_t signal) { return static_cast<size_t>(M::kSignalBegin[signal]); }

  bool rest_known() const { return limits_.has_rest || measured_rest_; }

  void learn_rest() {
    if (limits_.rest_signal < 0) return;
    const size_t begin = begin_of(static_cast<size_t>(limits_.rest_signal));
    for (size_t i = 0; i < A; ++i)
      if (!std::isfinite(observation_.values[begin + i])) return;
    for (size_t i = 0; i < A; ++i) rest_[i] = observation_.values[begin + i];
    measured_rest_ = true;
  }

  // Returns which position is older than the writes that are counted; the actions since the one before it count on.
  Reason learn_places(double now) {
    Reason late;
    for (size_t i = 0; i < A; ++i) {
      if (limits_.moves[i] < 0) continue;
      const auto element = static_cast<size_t>(limits_.moves[i]);
      const double position = static_cast<double>(observation_.values[element]);
      if (!std::isfinite(position)) continue;
      size_t signal = 0;
      while (begin_of(signal + 1) <= element) ++signal;
      const double stamp = observation_.measured(signal);
      // The same measurement as before, as of a slow sensor: the actions since then count on.
      if (std::isfinite(place_[i]) && !unequal(position, place_[i]) && !unequal(stamp, place_stamps_[i])) continue;
      const double oldest = command_at_[static_cast<size_t>(commands_ % M::kWrites)];
      if (commands_ >= M::kWrites && stamp < oldest) {
        if (!late) late = {Kind::age, static_cast<int>(signal), now - stamp, now - oldest};
        continue;
      }
      place_[i] = position;
      place_stamps_[i] = stamp;
      if (commands_ == 0) continue;  // else up to the last write, which stays in force until the next
      const double newest = command_at_[static_cast<size_t>((commands_ - 1) % M::kWrites)];
      since_[i] = way(i, stamp, now) - last_[i] * (now - newest) / limits_.period;
    }
    return late;
  }

  // How far actions have led from a stamp until now [s], in units of the action times one period.
  double way(size_t i, double stamp, double end) const {
    double sum = 0.0;
    for (int k = commands_ - 1; k >= std::max(commands_ - M::kWrites, 0) && !(end <= stamp); --k) {
      const auto at = static_cast<size_t>(k % M::kWrites);
      const double passed = std::max(end - std::max(stamp, command_at_[at]), 0.0);
      sum += static_cast<double>(command_[at][i]) * passed / limits_.period;
      end = std::min(end, command_at_[at]);
    }
    return sum;
  }

  // Ticks.

  bool paused(double now) {
    const double pause = now - ruled_at_;
    ruled_at_ = now;
    ruling_.writes = ruling_.fallback = false;
    ruling_.limited_by.count = 0;
    ruling_.reason = ruling_.held = {};
    ruling_.time = now;
    ruling_.number = ++rulings_;
    if (pause <= limits_.max_pause_s * (1 + kRounding)) return false;
    stop({Kind::pause, -1, pause, limits_.max_pause_s});
    return true;
  }

  bool count(int ticks, Reason reason) {
    hold_count_ += ticks;
    if (hold_count_ < limits_.stop_after) return false;
    stop(reason);
    return true;
  }

  const Ruling<M>& stop(Reason reason) {
    ruling_.writes = false;
    ruling_.limited_by.count = 0;
    ruling_.limited_by.add(Limit::stop);
    ruling_.reason = reason;
    trip(reason);
    return ruling_;
  }

  const Ruling<M>& drive(const Action& action) {
    taken_over_ = true;
    reset_blend();
    return aim(action);
  }

  const Ruling<M>& aim(const Action& action) {
    target_ = action;
    has_target_ = true;
    shape(target_);
    return ruling_;
  }

  const Ruling<M>& standing() {
    if (!has_written_) return ruling_;
    Action action = written_;
    if (workspace_ && !keep(action, 0)) return stop({Kind::start, -1, 0.0, 0.0});
    step(action);
    return ruling_;
  }

  // Actions: the limits of limiter.py, in their order.

  bool begin_blend(bool from_written) {
    if (blends_ || !(blended_ < limits_.blend_in_s)) return true;
    if (!from_written && !rest_known()) return false;
    origin_ = from_written ? written_ : rest_;
    blends_ = true;
    return true;
  }

  void reset_blend() { blends_ = false, blended_ = 0.0; }

  void shape(const Action& target) {
    if (!has_written_ && starts_beyond()) return void(stop({Kind::start, -1, 0.0, 0.0}));
    const double passed = elapsed();
    Action action = target;
    if (blends_ && blended_ < limits_.blend_in_s) {
      blended_ += has_written_ ? passed : 0.0;
      const double share = blended_ / limits_.blend_in_s;
      if (share < 1.0 - kRounding) {
        for (size_t i = 0; i < A; ++i) action[i] = origin_[i] + static_cast<float>(share) * (target[i] - origin_[i]);
        ruling_.limited_by.add(Limit::blend_in);
      }
    }
    for (size_t i = 0; i < A; ++i) {
      const float bounded = cut(action[i], limits_.low[i], limits_.high[i]);
      if (unequal(bounded, action[i])) ruling_.limited_by.add(Limit::bounds, static_cast<int>(i));
      action[i] = bounded;
    }
    if (workspace_ && !keep(action, 0)) return void(stop({Kind::start, -1, 0.0, 0.0}));
    step(action);
  }

  // Sets the ruling's action as far towards a target as one write may go.
  void step(const Action& target) {
    ruling_.action = target;
    ruling_.writes = true;
    if (!rates_ && !accelerates_) return;
    if (!has_written_ && !rest_known()) return void(stop({Kind::start, -1, 0.0, 0.0}));
    const Action& begin = has_written_ ? written_ : rest_;
    const double passed = elapsed();
    const int before = ruling_.limited_by.count;
    std::array<double, A> start{}, way{}, steps{};
    for (size_t i = 0; i < A; ++i) {
      start[i] = static_cast<double>(begin[i]);
      steps[i] = way[i] = static_cast<double>(target[i]) - start[i];
    }
    if (accelerates_)
      for (size_t i = 0; i < A; ++i)
        if (unequal(steps[i] = eased(i, way[i], passed), way[i]))
          ruling_.limited_by.add(Limit::acceleration, static_cast<int>(i));
    if (rates_ && limits_.adapt_steps > 0 && adapting_ >= 0 && limits_.adapt_gentle < 1.0)
      for (size_t i = 0; i < A; ++i) {
        if (!std::isfinite(limits_.rate[i])) continue;
        const double longest = std::max(limits_.adapt_gentle * limits_.rate[i] * passed, braking(i, passed));
        const double limited = cut(steps[i], -longest, longest);
        if (unequal(limited, steps[i])) ruling_.limited_by.add(Limit::gentle, static_cast<int>(i));
        steps[i] = limited;
      }
    if (ruling_.limited_by.count > before && workspace_) {  // it brakes by the full rate, harder than a gentle one
      Action inside{}, shortened{};
      for (size_t i = 0; i < A; ++i) shortened[i] = cut_step(static_cast<float>(start[i] + steps[i]), start[i], i);
      inside = shortened;
      if (!keep(inside, before)) return void(stop({Kind::start, -1, 0.0, 0.0}));
      for (size_t i = 0; i < A; ++i)
        if (unequal(inside[i], shortened[i])) steps[i] = static_cast<double>(inside[i]) - start[i];
    }
    if (rates_)
      for (size_t i = 0; i < A; ++i) {
        if (!std::isfinite(limits_.rate[i])) continue;
        const double longest = limits_.rate[i] * passed, limited = cut(steps[i], -longest, longest);
        if (unequal(limited, steps[i])) ruling_.limited_by.add(Limit::rate, static_cast<int>(i));
        steps[i] = limited;
      }
    if (ruling_.limited_by.count == before) return;
    for (size_t i = 0; i < A; ++i) {
      if (unequal(steps[i], way[i])) ruling_.action[i] = rounded_down(start[i], steps[i]);
      if (accelerates_) ruling_.action[i] = cut_step(ruling_.action[i], start[i], i);
    }
  }

  // The part of a step that the acceleration allows, such that the action can still stop at its target.
  double eased(size_t i, double way, double passed) const {
    if (!(limits_.acceleration[i] < kUnlimited)) return way;
    const double change = limits_.acceleration[i] * passed, speed = speed_at(i);
    const double longest = longest_step(std::abs(way), change * passed);
    return cut(cut(way, -longest, longest), (speed - change) * passed, (speed + change) * passed);
  }

  // The length of the step that brakes as hard as allowed; 0 for an element without a limit.
  double braking(size_t i, double passed) const {
    if (!(limits_.acceleration[i] < kUnlimited)) return 0.0;
    return std::max((std::abs(speed_at(i)) - limits_.acceleration[i] * passed) * passed, 0.0);
  }

  // Clips to the bounds; an element that starts beyond them may stay there or move back.
  float cut_step(float action, double start, size_t i) const {
    const double low = std::min(static_cast<double>(limits_.low[i]), start);
    const double high = std::max(static_cast<double>(limits_.high[i]), start);
    return static_cast<float>(cut(static_cast<double>(action), low, high));
  }

  // Start plus step in float32; never moves further than the step.
  static float rounded_down(double start, double step) {
    const float end = static_cast<float>(start + step);
    const bool beyond = std::abs(static_cast<double>(end) - start) > std::abs(step);
    return beyond ? std::nextafter(end, static_cast<float>(start)) : end;
  }

  // Whether the robot starts beyond the bounds and only a single jump, which no limit slows, would lead back.
  bool starts_beyond() const {
    if (!rest_known()) return false;
    for (size_t i = 0; i < A; ++i) {
      if (std::isfinite(limits_.rate[i]) || limits_.acceleration[i] < kUnlimited) continue;
      const double low = static_cast<double>(limits_.low[i]), high = static_cast<double>(limits_.high[i]);
      const double width = kParked * (high - low), noise = std::isfinite(width) ? width : 0.0;
      const double start = static_cast<double>(rest_[i]);
      if (start < low - noise || start > high + noise) return true;
    }
    return false;
  }

  // Limits an action so that it moves nothing out of the workspace; false if the position is not known. Names each
  // element that it limits, unless one of the first `unnamed` changes already does.
  bool keep(Action& action, int unnamed) {
    for (size_t i = 0; i < A; ++i)
      if (limits_.moves[i] >= 0 && !std::isfinite(place_[i])) return false;
    for (size_t i = 0; i < A; ++i) {
      if (limits_.moves[i] < 0) continue;
      const double scale = limits_.moves_scale[i];
      const double at = place_[i] + scale * (since_[i] + last_[i] * in_force(ruling_.time) / limits_.period);
      const double down = std::max(at - limits_.workspace_low[i], 0.0), up = std::max(limits_.workspace_high[i] - at, 0.0);
      const double ahead = (scale > 0 ? up : down) / std::abs(scale), back = (scale > 0 ? down : up) / std::abs(scale);
      const double requested = static_cast<double>(action[i]), allowed = cut(requested, -slow(i, back), slow(i, ahead));
      const auto limited = static_cast<float>(allowed);
      const int element = static_cast<int>(i);
      if (unequal(limited, action[i]) && !ruling_.limited_by.has(Limit::workspace, element, unnamed))
        ruling_.limited_by.add(Limit::workspace, element);
      action[i] = limited;
    }
    return true;
  }

  // The largest action from which the rate still allows stopping within a distance `way` [unit of the action x period].
  double slow(size_t i, double way) const {
    const double change = limits_.rate[i] * limits_.period;
    if (!std::isfinite(change) || !std::isfinite(way)) return way;
    return longest_step(way, change);
  }

  // The longest step from which one can stop within a distance, if each step is shorter by `change` than the last.
  static double longest_step(double way, double change) {
    const double steps = change > 0 ? std::max(std::ceil((std::sqrt(1 + 8 * way / change) - 1) / 2), 1.0) : 1.0;
    return way / steps + change * (steps - 1) / 2;
  }

  // Stores the action being written, from which the next step starts; returns the time since the last write [s].
  double record_write(const Action& action, double now) {
    const double passed = elapsed_at(now), since = in_force(now);
    if (accelerates_ && (has_written_ || rest_known())) {
      const Action& start = has_written_ ? written_ : rest_;
      const double least = kShortestPeriods * tick_period_;
      const bool stale = pauses(now);
      for (size_t i = 0; i < A; ++i) {
        double way = static_cast<double>(action[i]) - static_cast<double>(start[i]);
        if (passed < least) way += (stale ? 0.0 : speed_[i]) * (least - passed);
        speed_[i] = way / std::max(passed, least);
      }
    }
    written_ = action;
    written_at_ = now;
    has_written_ = true;
    return since;
  }

  double elapsed() const { return elapsed_at(ruling_.time); }
  double elapsed_at(double now) const { return std::min(in_force(now), kPausePeriods * tick_period_); }
  double in_force(double now) const { return has_written_ ? std::max(now - written_at_, 0.0) : tick_period_; }
  bool pauses(double now) const { return now - written_at_ > kPausePeriods * tick_period_ * (1 + kRounding); }
  double speed_at(size_t i) const { return pauses(ruling_.time) ? 0.0 : speed_[i]; }

  Limits<M> limits_;
  bool rates_ = false, accelerates_ = false, workspace_ = false, armed_ = true;
  Reason tripped_;
  Fallback fallback_ = nullptr;
  void* fallback_context_ = nullptr;
  double tick_period_ = 0.0;  // nominal time between two ticks [s]
  // State of the episode.
  bool has_written_ = false, has_target_ = false, taken_over_ = false, observed_ = false;
  Action written_{}, executed_{}, target_{}, rest_{}, origin_{};
  double written_at_ = 0.0, ruled_at_ = kInfinity;
  unsigned long long rulings_ = 0;
  int hold_count_ = 0;  // periods of the policy in a row without a new action
  Then then_ = Then::hold;
  Observation<M> observation_;
  std::array<double, S> newest_by_signal_{};
  std::array<int, S> same_{};
  std::array<float, D> repeated_{};
  double score_ = 0.0;
  int alarms_ = 0;
  int adapting_ = -1;  // steps since a detected change; -1 before a change, and once the context has settled again
  bool passed_ = false;  // whether an observation passed the training ranges
  std::array<int, 3> jump_ticks_{};
  std::array<double, D> jumped_from_{}, jump_stamps_{};
  bool measured_rest_ = false, blends_ = false;
  double blended_ = 0.0;
  std::array<double, A> speed_{}, place_{}, place_stamps_{}, since_{}, last_{};  // place: the last observed position
  std::array<Action, M::kWrites> command_{};  // a ring of the actions executed last, and their times [s]
  std::array<double, M::kWrites> command_at_{};
  int commands_ = 0;
  Ruling<M> ruling_;
};

}  // namespace sami

#endif
