// Checks sami_joints.hpp against the table that also tests the Python code: joint_table tests/cases/joint_limits.json
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sami_joints.hpp"

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: joint_table CASES.json\n"), 2;
  std::ifstream file(arguments[1]);
  const auto cases = nlohmann::json::parse(file);
  int wrong = 0;
  for (const auto& row : cases) {
    const auto& document = row.at("joint");
    sami::JointLimit limit;
    const std::vector<std::pair<const char*, double*>> keys = {
        {"low", &limit.low},       {"high", &limit.high}, {"velocity", &limit.velocity}, {"acceleration", &limit.acceleration},
        {"torque", &limit.torque}, {"kp", &limit.kp},     {"kd", &limit.kd},             {"inertia", &limit.inertia}};
    for (const auto& [key, value] : keys) *value = document.value(key, *value);
    const auto kind = row.at("command") == "joint_velocities" ? sami::JointCommand::kVelocity : sami::JointCommand::kTarget;
    const auto& now = row.at("now");
    const sami::JointMoment moment = {now.at("position"), now.at("velocity"), now.at("reference"), now.at("period")};
    unsigned limited = 0, expected = 0;
    const double allowed = sami::Joint(kind, limit).limited_to(row.at("asked"), moment, &limited);
    for (const std::string rule : row.at("limited_by"))
      expected |= rule == "position" ? sami::kPositionLimit : rule == "velocity" ? sami::kVelocityLimit : sami::kTorqueLimit;
    if (allowed != row.at("allowed").get<double>() || limited != expected)
      ++wrong, std::printf("%s: %.17g by %u\n", row.at("case").get<std::string>().c_str(), allowed, limited);
  }
  std::printf("%zu cases, %d wrong\n", cases.size(), wrong);
  return wrong ? 1 : 0;
}
