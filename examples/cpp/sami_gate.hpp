// The safety gate of a control loop, as in the Python runtime: bounds, rate, age, finite numbers, missed ticks, a latch.
// Standard C++17 and nothing else. Compile with -ffp-contract=off: then it agrees to the last bit with sami_runtime, on
// gate_cases.csv (gate_table.cpp). It rules once for each tick of the policy, in one thread. Bounds come first, rate
// last, and a step goes from what was written last, whatever the robot executed of it. Not here: acceleration,
// blend-in, frozen sensors, a measured rest, limits on observations, standing ticks of a loop faster than the policy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sami {

using Vector = std::vector<float>;

struct Limits {
  std::vector<std::string> elements;  // names of the action's elements; every list below has a value for each
  Vector low, high;                   // bounds, in the action's unit
  std::vector<double> rate;           // largest change [unit/s]; infinite where there is no limit
  Vector rest;                        // the action that moves nothing; empty where none is known
  double period = 0.0;                // of the policy [s]
  double max_age_s = 0.0;             // an observation that was measured longer ago is not acted on
  double max_pause_s = 0.0;           // so long after the last tick the robot is stopped; infinite: missed ticks count
                                      // only where the one after them has no new action
  int hold_ticks = 3;                 // without a new action the last one stands so many ticks, then it goes to rest
  int stop_after = 10;                // at so many in a row the robot is stopped; ticks that passed without a turn count

  // What holds where nobody says otherwise: the contract's bounds, ages of three periods, pauses of stop_after.
  template <class Json>
  static Limits of(const Json& contract) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    Limits limits;
    const auto& action = contract.at("action");
    for (const auto& element : action.at("elements")) limits.elements.push_back(element);
    for (const auto& low : action.at("low")) limits.low.push_back(low.is_null() ? -infinity : low.template get<float>());
    for (const auto& high : action.at("high"))
      limits.high.push_back(high.is_null() ? infinity : high.template get<float>());
    limits.rate.assign(limits.elements.size(), infinity);
    limits.period = 1.0 / contract.at("rate_hz").template get<double>();
    limits.max_age_s = 3 * limits.period;
    limits.max_pause_s = limits.stop_after * limits.period;
    return limits;
  }
};

// What the gate lets through at one tick.
struct Ruling {
  Vector action;                        // empty: nothing is written, to stop or because nothing was executed yet
  std::vector<std::string> limited_by;  // every limit that changed the proposal, as "rate dx"; "rest" and "stop"
  std::string reason;                   // why it stopped, its kind first; empty otherwise
  double time = 0.0;
};

class Gate {
 public:
  explicit Gate(Limits limits) : limits_(std::move(limits)), rates_(false) {
    const size_t size = limits_.elements.size();
    for (size_t count : {limits_.low.size(), limits_.high.size(), limits_.rate.size()})
      if (count != size) throw std::invalid_argument("low, high and rate need a value for each element of the action");
    for (double rate : limits_.rate) rates_ = rates_ || std::isfinite(rate);
    if (limits_.rest.empty() ? rates_ : limits_.rest.size() != size)
      throw std::invalid_argument("a rate needs a rest to start from, with a value for each element of the action");
    for (size_t i = 0; i < limits_.rest.size(); ++i)
      if (!(limits_.rest[i] >= limits_.low[i] && limits_.rest[i] <= limits_.high[i]))
        throw std::invalid_argument("rest is beyond the bounds: " + limits_.elements[i]);
    if (!(limits_.period > 0.0 && limits_.max_age_s > 0.0 && limits_.max_pause_s > 0.0))
      throw std::invalid_argument("period, max_age_s and max_pause_s must be greater than 0");
  }

  // An episode: nothing has been executed in it. A gate that tripped refuses to begin one until it is re-armed.
  void begin() {
    if (!tripped_.empty()) throw std::runtime_error(tripped_ + ". Nothing is written until the gate is re-armed.");
    armed_ = true;
    written_.clear();
    executed_.clear();
    written_at_ = 0.0;
    held_ = 0;
    newest_ = -std::numeric_limits<double>::infinity();
    ruled_at_ = std::numeric_limits<double>::infinity();
  }

  // Latches the gate: nothing more is written. What came first is why.
  void trip(const std::string& reason) {
    if (tripped_.empty()) tripped_ = reason;
    armed_ = false;
  }

  // For a person to call: the next begin() is allowed.
  void rearm() { tripped_.clear(); }

  // Why the gate is latched; empty while it is armed.
  const std::string& tripped() const { return tripped_; }

  // Why an observation must not be acted on, by when it was measured [s]; empty if it may be.
  std::string fault(double stamp, double now) {
    const double age = now - stamp;
    if (!(std::abs(age) <= limits_.max_age_s * (1 + kRounding)))  // so that NaN counts as too old
      return "age: the observation was measured " + seconds(age) + " before now, allowed are " +
             seconds(limits_.max_age_s);
    if (stamp < newest_) return "order: the observation was measured " + seconds(newest_ - stamp) + " before an earlier one";
    newest_ = stamp;
    return "";
  }

  // Rules on a new action, after `ticks` ticks of the policy: 1, and those that passed without a turn.
  // Throws where it is not finite, and has changed nothing then: hold.
  const Ruling& propose(const Vector& action, double now, int ticks = 1) {
    require_finite(action);
    if (paused(now)) return ruling_;
    const bool counts = ticks > 1 && limits_.max_pause_s < std::numeric_limits<double>::infinity();
    if (counts && count(ticks - 1, "missed: " + std::to_string(ticks - 1) + " ticks passed without a turn")) return ruling_;
    held_ = 0;
    shape(action);
    return ruling_;
  }

  // Rules on a tick without a new action: the last one stands, then it goes to rest; at too many the gate trips.
  const Ruling& hold(const std::string& reason, double now, int ticks = 1) {
    if (paused(now) || count(ticks, reason)) return ruling_;
    if (written_.empty() || held_ <= limits_.hold_ticks || limits_.rest.empty()) {
      ruling_.action = written_;
    } else {
      ruling_.limited_by.push_back("rest");
      shape(limits_.rest);
    }
    return ruling_;
  }

  // Calls send(action), which returns what was really executed, for the policy to read; null where nothing was written.
  template <class Send>
  const Vector* write(const Ruling& ruling, const Send& send) {
    if (ruling.action.empty() || !armed_) return nullptr;
    written_ = ruling.action;  // whatever the robot does with it
    written_at_ = ruling.time;
    Vector sent = send(ruling.action);
    require_finite(sent);
    executed_ = std::move(sent);
    return &executed_;
  }

 private:
  static constexpr double kRounding = 1e-6;     // share of a time that is rounding
  static constexpr double kPausePeriods = 2.0;  // a longer pause allows no more than so many periods

  static std::string seconds(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g s", value);
    return text;
  }

  void require_finite(const Vector& action) const {
    if (action.size() != limits_.elements.size()) throw std::invalid_argument("the action has another size");
    for (size_t i = 0; i < action.size(); ++i)
      if (!std::isfinite(action[i]))
        throw std::runtime_error("the action is not finite at " + limits_.elements[i] + "; it is never clamped");
  }

  bool paused(double now) {
    const double pause = now - ruled_at_;
    ruled_at_ = now;
    ruling_.action.clear();
    ruling_.limited_by.clear();
    ruling_.reason.clear();
    ruling_.time = now;
    if (pause <= limits_.max_pause_s * (1 + kRounding)) return false;
    stop("pause: " + seconds(pause) + " passed between two ticks, allowed are " + seconds(limits_.max_pause_s));
    trip(ruling_.reason);
    return true;
  }

  bool count(int ticks, const std::string& reason) {
    held_ += ticks;
    if (held_ < limits_.stop_after) return false;
    stop(reason);
    trip("no new action at " + std::to_string(held_) + " ticks in a row (stop_after), lastly: " + reason);
    return true;
  }

  void stop(const std::string& reason) {
    ruling_.limited_by.push_back("stop");
    ruling_.reason = reason;
  }

  // Cuts at the bounds, then by how fast the action may change since what was written last.
  void shape(const Vector& target) {
    Vector& action = ruling_.action;
    action = target;
    for (size_t i = 0; i < action.size(); ++i)
      if ((action[i] = bounded(target[i], i)) != target[i]) ruling_.limited_by.push_back("bounds " + limits_.elements[i]);
    if (!rates_) return;
    const Vector& start = written_.empty() ? limits_.rest : written_;
    const double since = std::min(std::max(ruling_.time - written_at_, 0.0), kPausePeriods * limits_.period);
    const double elapsed = written_.empty() ? limits_.period : since;
    for (size_t i = 0; i < action.size(); ++i) {
      if (!std::isfinite(limits_.rate[i])) continue;
      const double way = static_cast<double>(action[i]) - static_cast<double>(start[i]);
      const double longest = limits_.rate[i] * elapsed;
      const double step = std::min(std::max(way, -longest), longest);
      if (step == way) continue;
      action[i] = rounded_down(start[i], step);
      ruling_.limited_by.push_back("rate " + limits_.elements[i]);
    }
  }

  // Where a step leads from a start, in float32 and never further than the step.
  static float rounded_down(float start, double step) {
    const float end = static_cast<float>(static_cast<double>(start) + step);
    const bool beyond = std::abs(static_cast<double>(end) - static_cast<double>(start)) > std::abs(step);
    return beyond ? std::nextafter(end, start) : end;
  }

  float bounded(float value, size_t i) const { return std::min(std::max(value, limits_.low[i]), limits_.high[i]); }

  Limits limits_;
  bool rates_, armed_ = true;
  std::string tripped_;
  Vector written_, executed_;  // empty before the first write of an episode
  double written_at_ = 0.0;
  int held_ = 0;  // ticks of the policy without a new action, in a row
  double newest_ = -std::numeric_limits<double>::infinity(), ruled_at_ = std::numeric_limits<double>::infinity();
  Ruling ruling_;
};

}  // namespace sami
