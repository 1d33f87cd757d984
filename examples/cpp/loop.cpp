// A complete control loop: read, step, gate, write, at the policy's rate. Every exit stops the robot.
//
//     sami export --c models/panda-satesac.onnx --set limits=examples/limits.toml --out policy
//     flags="-std=c++17 -O2 -ffp-contract=off -DPOLICY=panda_satesac -include policy/panda_satesac.hpp"
//     c++ $flags examples/cpp/loop.cpp policy/panda_satesac.cpp -o loop
//     python examples/udp_robot.py & ./loop [TICKS]
#include <cmath>
#include <csignal>
#include <cstdio>
#include <thread>

#include "udp_robot.hpp"

namespace {

volatile std::sig_atomic_t ended_by = 0;  // number of the signal that ended the loop

struct Stopping {  // also on an exception; if the process is killed, only a watchdog can stop the robot
  sami::UdpRobot& robot;
  ~Stopping() { robot.stop(); }
};

// Turns off the guards `ranges` and `ood`, because the example's robot is no Panda and leaves the training ranges.
sami::Limits<POLICY::Model> limits() {
  using All = sami::Limits<POLICY::Model>;
  All limits = POLICY::limits();
  limits.first_low = limits.later_low = All().first_low;
  limits.first_high = limits.later_high = All().first_high;
  limits.alarm_steps = 0;
  return limits;
}

int drive(int ticks) {
  static POLICY::Runtime runtime(limits());
  const double period = 1.0 / POLICY::Model::kRateHz;
  sami::UdpRobot robot;
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(number, [](int caught) { ended_by = caught; });
  const Stopping stopping{robot};
  robot.reset();
  POLICY::Observation observation;
  int acted = 0, holds = 0, skipped = 0, tick = 0, since = 1;  // since: periods since the last tick
  const double start = sami::UdpRobot::now();
  while (tick < ticks && ended_by == 0 && !runtime.gate.tripped()) {
    robot.read(observation);
    runtime.tick(observation, sami::UdpRobot::now, [&](const auto& action) { return robot.write(action); }, since);
    runtime.reason ? ++holds : ++acted;
    const double passed = (sami::UdpRobot::now() - start) / period;  // deadlines are absolute: errors do not add up
    since = std::max(1, static_cast<int>(std::ceil(passed)) - tick);  // missed ticks are skipped, not caught up
    tick += since, skipped += since - 1;
    std::this_thread::sleep_for(std::chrono::duration<double>(start + tick * period - sami::UdpRobot::now()));
  }
  std::printf("%d acted, %d held, %d missed\n", acted, holds, skipped);
  if (const sami::Reason reason = runtime.gate.tripped())
    std::fprintf(stderr, "loop: %s: %g, allowed are %g. The robot is stopped.\n", sami::name(reason.kind), reason.value,
                 reason.allowed);
  return ended_by != 0 ? 128 + ended_by : runtime.gate.tripped() ? 3 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return drive(count > 1 ? std::atoi(arguments[1]) : 100);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "loop: %s\n", error.what());
    return 1;
  }
}
