// Replays the golden steps of a model file and compares every answer: the same check as `sami verify`, in C++.
//
//     sami inspect MODEL.onnx --golden golden.csv
//     ./replay MODEL.onnx golden.csv [TOLERANCE]
//
// Exit code 0 where all answers agree, 4 where one differs, 1 for anything else.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "sami_policy.hpp"

namespace {

// Largest difference so far, and the step that it was at.
struct Worst {
  double error = 0.0;
  int step = 0;
};

std::vector<float> numbers(const std::string& line) {
  std::vector<float> row;
  std::istringstream cells(line);
  for (std::string cell; std::getline(cells, cell, ',');) row.push_back(std::stof(cell));
  return row;
}

void compare(const sami::Vector& answer, const float* expected, int step, Worst& worst) {
  for (size_t i = 0; i < answer.size(); ++i) {
    const double error = std::abs(static_cast<double>(answer[i]) - expected[i]);
    if (!(error <= worst.error)) worst = {error, step};
  }
}

int replay(const char* model, const char* golden, double tolerance) {
  sami::Policy policy(model);
  const auto& contract = policy.contract();
  std::ifstream file(golden);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error(std::string(golden) + " cannot be read");
  const size_t columns = std::count(line.begin(), line.end(), ',') + 1;

  Worst worst;
  int steps = 0;
  for (; std::getline(file, line); ++steps) {
    const auto row = numbers(line);
    if (row.size() != columns) throw std::runtime_error("a row of the golden steps is not complete");
    const float* cell = row.data();
    if (*cell++ != 0.0F) policy.reset();
    if (policy.looks_ahead() > 0.0F) {  // ages and held periods are a row's last cells
      for (float held = row.back(); held > 0.0F; --held) policy.elapse();
      policy.age(sami::Vector(row.end() - 1 - contract.at("observation").size(), row.end() - 1));
    }
    for (const auto& signal : contract.at("observation")) {
      auto& values = policy.observation(signal.at("name"));
      std::copy_n(cell, values.size(), values.begin());
      cell += values.size();
    }
    const sami::Vector action = policy.step();
    policy.executed(sami::Vector(cell, cell + action.size()));
    compare(action, cell += action.size(), steps, worst);
    compare(policy.context(), cell += action.size(), steps, worst);
    cell += policy.context().size();
    for (const auto& name : policy.extra_names()) {
      compare(policy.extra(name), cell, steps, worst);
      cell += policy.extra(name).size();
    }
  }
  if (steps == 0) throw std::runtime_error("there are no golden steps");
  const bool same = worst.error <= tolerance;
  std::printf("%s: %d steps, largest difference %.1e at step %d, %s %.0e\n",
              contract.at("name").get<std::string>().c_str(), steps, worst.error, worst.step,
              same ? "within" : "MORE THAN", tolerance);
  return same ? 0 : 4;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3 || count > 4) {
    std::fprintf(stderr, "usage: %s MODEL.onnx GOLDEN.csv [TOLERANCE]\n", arguments[0]);
    return 2;
  }
  try {
    return replay(arguments[1], arguments[2], count == 4 ? std::stod(arguments[3]) : 1e-5);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replay: %s\n", error.what());
    return 1;
  }
}
