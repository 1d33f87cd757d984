// The limits of one joint of a body: position, velocity and torque, as sami_runtime/robots/body/joints.py computes them.
// Standard C++17 without heap. Compiled with -ffp-contract=off, it is bit-equal to the Python code on
// tests/cases/joint_limits.json (joint_table.cpp). It lacks the limits of shapes and points, which need MuJoCo.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(_M_FP_FAST)
#error "these limits reject NaN, which -ffast-math and -ffinite-math-only would let through: leave them out"
#endif

namespace sami {

enum class JointCommand { kVelocity, kTarget };  // [rad/s], or [rad]; a target is soft if kp is set

struct JointLimit {
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  double low = -1e9, high = 1e9;  // range [rad, m]
  double velocity = kNone;        // highest [rad/s, m/s]
  double acceleration = kNone;    // least deceleration of a braking joint [rad/s^2, m/s^2]; infinite: at once,
                                  // a soft target by a quarter of its torque
  double torque = kNone;          // highest [N m]; only for a soft target
  double kp = 0.0, kd = 0.0;      // torque = kp (target - q) - kd v; kp 0: the robot reaches targets within a period
  double inertia = 0.0;           // inertia that the motor moves [kg m^2]
};

struct JointMoment {
  double position, velocity;  // measured
  double reference;           // the command in force; before the first one the measured position, or 0
  double period;              // how long the command is in force [s]
};

// Bits of `limited`.
enum JointRule : unsigned { kPositionLimit = 1, kVelocityLimit = 2, kTorqueLimit = 4, kNotFinite = 8 };

class Joint {
 public:
  Joint(JointCommand kind, const JointLimit& limit) : kind_(kind), limit_(limit) {
    if (kind == JointCommand::kTarget && soft() && std::isinf(limit.acceleration))  // it stops no joint at once
      limit_.acceleration = 0.25 * limit.torque / limit.inertia;
  }

  // Returns the limited command, and sets in `limited` the bit of each rule that changed it. If a number is NaN or
  // infinite, nothing can be judged: returns the command in force, or speed 0, with kNotFinite. Then stop the robot.
  double limited_to(double command, const JointMoment& now, unsigned* limited) const {
    *limited = 0;
    const bool target = kind_ == JointCommand::kTarget;
    if (!std::isfinite(command + now.position + now.velocity + now.reference + now.period)) {
      *limited = kNotFinite;
      return target ? now.reference : 0.0;
    }
    if (limit_.low > -1e9 || limit_.high < 1e9) {
      const double start = target && !soft() ? now.reference : now.position;
      double low = at_speed(-end_speed(std::max(start - limit_.low, 0.0), -now.velocity, now.period), now, true);
      double high = at_speed(end_speed(std::max(limit_.high - start, 0.0), now.velocity, now.period), now, false);
      if (target && soft()) low = clipped(low, limit_.low, limit_.high), high = clipped(high, limit_.low, limit_.high);
      command = ruled(command, low, high, kPositionLimit, limited);
    }
    if (std::isfinite(limit_.velocity))
      command = ruled(command, at_speed(-limit_.velocity, now, true), at_speed(limit_.velocity, now, false),
                      kVelocityLimit, limited);
    if (target && soft()) {
      const double damped = limit_.kd * now.velocity;
      command = ruled(command, now.position + (damped - limit_.torque) / limit_.kp,
                      now.position + (damped + limit_.torque) / limit_.kp, kTorqueLimit, limited);
    }
    return command;
  }

 private:
  bool soft() const { return limit_.kp > 0.0; }

  static double clipped(double value, double low, double high) { return std::min(std::max(value, low), high); }

  static double ruled(double command, double low, double high, JointRule rule, unsigned* limited) {
    const double after = clipped(command, low, high);
    if (!(std::abs(after - command) > 1e-6 * (1e-3 + std::abs(command)))) return command;  // rounding
    *limited |= rule;
    return after;
  }

  // The largest speed from which the joint, after a period h, can still stop within its room.
  double braking_speed(double room, double h) const {
    return 2.0 * room / (h * (1.0 + std::sqrt(1.0 + 2.0 * room / (limit_.acceleration * h * h))));
  }

  // The highest speed u towards an end; if the joint is faster than it, u h + (u^2 + (v - u)^2) / (2 a) <= room, or 0.
  double end_speed(double room, double v, double h) const {
    const double most = braking_speed(room, h), a = limit_.acceleration;
    if (kind_ != JointCommand::kVelocity || !(v > most) || std::isinf(a)) return most;
    const double excess = v - a * h, square = excess * excess - 2.0 * v * v + 4.0 * (a * room);
    return square < 0.0 ? 0.0 : std::max(0.5 * (excess + std::sqrt(square)), 0.0);
  }

  // The command that asks for a speed; for a soft target, the lowest or highest one that does not exceed this speed.
  double at_speed(double speed, const JointMoment& now, bool lowest) const {
    if (kind_ == JointCommand::kVelocity) return speed;
    if (!soft()) return now.reference + now.period * speed;
    const double braking =
        now.period * speed + limit_.inertia * (speed - now.velocity) / (now.period * limit_.kp);
    const double brake = lowest ? std::max(braking, 0.0) : std::min(braking, 0.0);
    return now.position + (limit_.kd / limit_.kp * speed + brake);
  }

  JointCommand kind_;
  JointLimit limit_;
};

}  // namespace sami
