// A whole control loop: read, step, gate, write, at the policy's rate; the robot is stopped on every way out.
//
//     python examples/udp_robot.py & build/loop models/panda-satesac.onnx [TICKS]
#include <csignal>
#include <thread>

#include "sami_gate.hpp"
#include "sami_policy.hpp"
#include "udp_robot.hpp"

volatile std::sig_atomic_t ended_by = 0;  // the signal that asked the loop to end

struct Stopping {  // also when an exception leaves the loop; what kills the process at once is for a watchdog
  sami::UdpRobot& robot;
  ~Stopping() { robot.stop(); }
};

int drive(const char* model, int ticks) {
  sami::Policy policy(model);
  sami::Limits limits = sami::Limits::of(policy.contract());
  limits.rate = {12.5, 12.5, 12.5, 25.0};  // as in examples/limits.toml
  limits.rest.assign(limits.rate.size(), 0.0F);
  sami::Gate gate(limits);
  sami::UdpRobot robot;
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(number, [](int caught) { ended_by = caught; });
  const Stopping stopping{robot};
  robot.reset();
  int acted = 0, held = 0, skipped = 0, tick = 0, since = 1;  // since: ticks since the last one
  const double start = robot.now();
  while (tick < ticks && ended_by == 0 && gate.tripped().empty()) {
    const double began = robot.now();
    const auto& seen = robot.read();
    std::string reason = gate.fault(seen.time, robot.now());
    for (int missed = 1; missed < since; ++missed) policy.elapse();
    const sami::Ruling* ruling = nullptr;
    if (reason.empty()) try {
        policy.observe(seen.values);
        policy.age(static_cast<float>(std::max(0.0, robot.now() - seen.time) / limits.period));
        const sami::Vector& action = policy.step();
        if (robot.now() - began > limits.period) policy.undo(), reason = "late: the answer came after its deadline";
        else ruling = &gate.propose(action, robot.now(), since);
      } catch (const std::exception& error) { reason = std::string("refused: ") + error.what(); }
    if (ruling == nullptr) policy.elapse(), ruling = &gate.hold(reason, robot.now(), since);
    const auto* sent = gate.write(*ruling, [&](const sami::Vector& action) { return robot.write(action); });
    if (sent != nullptr) policy.executed(*sent);  // the encoder learns from what was done
    reason.empty() ? ++acted : ++held;
    const double passed = (robot.now() - start) / limits.period;  // deadlines are absolute: no error adds up
    since = std::max(1, static_cast<int>(std::ceil(passed)) - tick);  // ticks that passed are skipped, not made up for
    tick += since, skipped += since - 1;
    std::this_thread::sleep_for(std::chrono::duration<double>(start + tick * limits.period - robot.now()));
  }
  std::printf("%d acted, %d held, %d missed\n", acted, held, skipped);
  if (!gate.tripped().empty()) std::fprintf(stderr, "loop: %s. The robot is stopped.\n", gate.tripped().c_str());
  return ended_by != 0 ? 128 + ended_by : gate.tripped().empty() ? 0 : 3;
}

int main(int count, char** arguments) {
  try {
    if (count >= 2) return drive(arguments[1], count > 2 ? std::atoi(arguments[2]) : 100);
    std::fprintf(stderr, "usage: %s MODEL.onnx [TICKS]\n", arguments[0]);
  } catch (const std::exception& error) { std::fprintf(stderr, "loop: %s\n", error.what()); }
  return count >= 2 ? 1 : 2;
}
