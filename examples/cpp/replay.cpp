// Replays the golden steps of a model file and compares every output: the same check as `sami verify`, in C++.
//
//     sami export --c models/panda-satesac.onnx --out policy
//     sami inspect models/panda-satesac.onnx --golden golden.csv
//     flags="-std=c++17 -O2 -ffp-contract=off -DPOLICY=panda_satesac -include policy/panda_satesac.hpp"
//     c++ $flags examples/cpp/replay.cpp policy/panda_satesac.cpp -o replay
//     ./replay golden.csv [TOLERANCE]
//
// Exit code: 0 if all outputs agree, 4 if one differs, 2 on wrong usage, else 1. It also runs on a microcontroller,
// where the debugger or the emulator opens the table (semihosting).
#include <cstdio>
#include <cstdlib>
#include <vector>

using Model = POLICY::Model;

namespace {

POLICY::Session session;
POLICY::Telemetry telemetry;

// The largest difference so far, and its step.
struct Worst {
  double error = 0.0;
  int step = 0;
};

template <class Answer>
void compare(const Answer& answer, const float*& expected, int step, Worst& worst) {
  for (const float value : answer) {
    const double error = std::abs(static_cast<double>(value) - static_cast<double>(*expected++));
    if (!(error <= worst.error)) worst = {error, step};
  }
}

bool next_line(std::FILE* file, std::vector<char>& line) {
  line.clear();
  for (int letter = std::fgetc(file); letter != EOF && letter != '\n'; letter = std::fgetc(file))
    if (letter != '\r') line.push_back(static_cast<char>(letter));
  line.push_back('\0');
  return line.size() > 1;
}

int fail(const char* why) {
  std::fprintf(stderr, "replay: %s\n", why);
  return 1;
}

int replay(const char* table, double tolerance) {
  std::FILE* const file = std::fopen(table, "r");
  if (file == nullptr) return fail("the golden steps cannot be read");
  std::vector<char> line;
  next_line(file, line);  // the names of the columns
  constexpr size_t ages = Model::kLooksAhead > 0 ? Model::kSignals + 1 : 0;  // a row ends with ages and held periods
  constexpr size_t columns = 1 + Model::kObserved + 2 * Model::kAction + Model::kContext + Model::kExtra + ages;
  Worst worst;
  int steps = 0, refused = -1;
  for (; refused < 0 && next_line(file, line); ++steps) {
    std::vector<float> row;
    for (char *cell = line.data(), *end = nullptr; *cell != '\0'; cell = end + (*end == ',')) {
      row.push_back(std::strtof(cell, &end));
      if (end == cell) return fail("a row of the golden steps has something that is no number");
    }
    if (row.size() != columns) return fail("a row of the golden steps has another number of columns than this policy");
    const float* cell = row.data();
    if (*cell++ > 0.0F) session.reset(), telemetry.reset();
    POLICY::Session::Ages age{};
    if (ages > 0) {
      session.elapse(static_cast<int>(row.back()));
      std::copy(row.end() - ages, row.end() - 1, age.begin());
    }
    POLICY::Observation observation;
    for (float& value : observation.values) value = *cell++;
    if (session.step(observation, age)) {
      refused = steps;
      break;
    }
    telemetry.update(session.context());
    POLICY::Session::Action executed{};
    for (float& value : executed) value = *cell++;
    compare(session.action(), cell, steps, worst);
    compare(session.context(), cell, steps, worst);
    compare(session.extra(), cell, steps, worst);
    session.executed(executed);
  }
  std::fclose(file);
  if (refused >= 0) return fail("an observation is not finite or too old; nothing was advanced");
  if (steps == 0) return fail("there are no golden steps");
  const bool same = worst.error <= tolerance;
  std::printf("%d steps, largest difference %.1e at step %d, %s %.0e, phase %s, score %.6g\n", steps, worst.error,
              worst.step, same ? "within" : "MORE THAN", tolerance, sami::name(telemetry.now.phase), telemetry.now.score);
  return same ? 0 : 4;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: replay GOLDEN.csv [TOLERANCE]\n");
    return 2;
  }
  return replay(arguments[1], count == 3 ? std::atof(arguments[2]) : 1e-5);
}
