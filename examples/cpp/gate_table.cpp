// Runs the gate on a table of cases, and compares every ruling with that of the Python gate.
//
//     c++ -std=c++17 -O2 -ffp-contract=off -I sami_runtime/robots/c_export examples/cpp/gate_table.cpp -o gate_table
//     ./gate_table examples/cpp/gate_cases.csv
//
// Exit code: 0 if all are bit-equal, 4 if one differs, 2 on wrong usage, else 1. gate_cases.py describes the rows.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sami_gate.hpp"

namespace {

struct Model {
  static constexpr int kAction = 2, kObserved = 4, kSignals = 2, kWrites = 122;
  static constexpr std::array<int, kSignals + 1> kSignalBegin{0, 2, 4};
};

using Row = std::vector<std::string>;
using Gate = sami::Gate<Model>;
using Limits = sami::Limits<Model>;
using Action = Gate::Action;

Row cells(const std::string& line) {
  Row row;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) row.push_back(cell);
  return row;
}

void read(const std::string& cell, double& value) { value = std::stod(cell); }
void read(const std::string& cell, float& value) { value = std::stof(cell); }
void read(const std::string& cell, int& value) { value = std::stoi(cell); }
void read(const std::string& cell, bool& value) { value = cell == "True"; }
void read(const std::string& cell, sami::Then& value) {
  value = cell == "stop" ? sami::Then::stop : cell == "rest" ? sami::Then::rest : sami::Then::hold;
}

template <class T>
void read(const Row& row, T& value) {
  read(row.at(2), value);
}
template <class T, size_t N>
void read(const Row& row, std::array<T, N>& values) {
  for (size_t i = 0; i < N; ++i) read(row.at(2 + i), values[i]);
}

void set(Limits& limits, const Row& row) {
#define MEMBER(name) \
  if (row.at(1) == #name) return read(row, limits.name)
  MEMBER(period);
  MEMBER(deadline_s);
  MEMBER(max_pause_s);
  MEMBER(hold_ticks);
  MEMBER(stop_after);
  MEMBER(blend_in_s);
  MEMBER(low);
  MEMBER(high);
  MEMBER(rate);
  MEMBER(acceleration);
  MEMBER(has_rest);
  MEMBER(rest);
  MEMBER(rest_signal);
  MEMBER(max_age_s);
  MEMBER(frozen);
  MEMBER(inside_low);
  MEMBER(inside_high);
  MEMBER(inside_then);
  MEMBER(bounds_low);
  MEMBER(bounds_high);
  MEMBER(bounds_then);
  MEMBER(jump);
  MEMBER(jump_then);
  MEMBER(first_low);
  MEMBER(first_high);
  MEMBER(later_low);
  MEMBER(later_high);
  MEMBER(moves);
  MEMBER(moves_scale);
  MEMBER(workspace_low);
  MEMBER(workspace_high);
  MEMBER(alarm_steps);
  MEMBER(alarm_score);
  MEMBER(alarm_then);
  MEMBER(adapt_steps);
  MEMBER(adapt_gentle);
  MEMBER(adapt_then);
#undef MEMBER
  throw std::runtime_error("the gate has no limit " + row.at(1));
}

// The result of a tick, in the table's format.
struct Outcome {
  std::string reason, limited_by;
  std::vector<float> written;
  bool tripped;
  sami::Ruling<Model> ruling;
};

std::vector<float> vector_at(const Row& row, size_t at) {
  if (row.at(at) == "-") return {};
  return {std::stof(row.at(at)), std::stof(row.at(at + 1))};
}

// The fallback `Spring` of gate_cases.py; the context holds its factor and its push.
bool spring(void* context, const sami::Observation<Model>& observation, double, Action& action) {
  const std::vector<float>& numbers = *static_cast<std::vector<float>*>(context);
  action = {numbers[0] * observation.values[0], numbers[1]};
  return true;
}

// Writes a ruling to a robot that reports the table's executed action.
Outcome written(Gate& gate, const sami::Ruling<Model>& ruling, const std::vector<float>& executed) {
  std::vector<float> command;
  gate.write(ruling, [&](const Action& action) {
    command.assign(action.begin(), action.end());
    return executed.empty() ? action : Action{executed[0], executed[1]};
  });
  const sami::Reason reason = ruling.reason ? ruling.reason : ruling.held;
  std::string limited_by;
  for (int i = 0; i < ruling.limited_by.count; ++i) {
    const sami::Change change = ruling.limited_by.list[static_cast<size_t>(i)];
    limited_by += (limited_by.empty() ? "" : ";") + std::string(sami::name(change.limit));
    if (change.element >= 0) limited_by += change.element == 0 ? " fx" : " fy";
  }
  return {reason ? sami::name(reason.kind) : "", limited_by, command, static_cast<bool>(gate.tripped()), ruling};
}

Outcome drive(Gate& gate, const Row& row) {
  if (row[0] == "stand") return written(gate, gate.stand(std::stod(row.at(1))), vector_at(row, 6));
  sami::Observation<Model> observation;
  const double now = std::stod(row.at(1));
  observation.time = std::stod(row.at(2));
  for (size_t i = 0; i < observation.values.size(); ++i) observation.values[i] = std::stof(row.at(13 + i));
  const int ticks = std::stoi(row.at(3));
  const sami::Reason reason = gate.fault(observation, now);
  const Action action{std::stof(row.at(4)), std::stof(row.at(5))};
  return written(gate, reason ? gate.hold(reason, now, ticks) : gate.propose(action, now, ticks), vector_at(row, 10));
}

int compare(const char* table) {
  std::ifstream file(table);
  if (!file) throw std::runtime_error(std::string(table) + " cannot be read");
  std::vector<Gate> gate;  // of the current case; constructed at its first begin
  Limits limits;
  std::vector<float> fallback;  // factor and push of the case; empty without a fallback
  sami::Ruling<Model> earlier;  // the last one of the case
  int cases = 0, ticks = 0, trips = 0, line_number = 0, differences = 0;
  double worst = 0.0;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    if (line.empty() || line[0] == '#') continue;
    const Row row = cells(line);
    bool same = true;
    if (row[0] == "case") {
      gate.clear();
      limits = {};
      fallback.clear();
      earlier = {};
      name = row.at(1);
      ++cases;
    } else if (row[0] == "limit") {
      set(limits, row);
    } else if (row[0] == "fallback") {
      fallback = vector_at(row, 1);
    } else if (row[0] == "begin") {
      if (gate.empty()) {
        gate.emplace_back(limits);
        if (!fallback.empty()) gate[0].set_fallback(spring, &fallback);
      }
      same = gate[0].begin() == (row.at(1) == "1");
      // A ruling of an earlier episode is not written, even if this one has ruled at the same time.
      const auto is_refused = [&] {
        return gate[0].write(earlier, [](const Action& action) { return action; }) == nullptr;
      };
      Gate copy = gate[0];
      same = same && is_refused() && (gate[0].stand(earlier.time), is_refused());
      gate[0] = copy;
    } else if (gate.empty()) {
      throw std::runtime_error("line " + std::to_string(line_number) + " belongs to no case");
    } else if (row[0] == "rearm") {
      gate[0].rearm();
    } else if (row[0] == "heed") {
      gate[0].record_telemetry(std::stod(row.at(1)), row.at(2) == "1", row.at(3) == "1");
    } else {
      const size_t at = row[0] == "stand" ? 2 : 6;
      const Outcome outcome = drive(gate[0], row);
      const std::vector<float> expected = vector_at(row, at + 2);
      earlier = outcome.ruling;
      same = outcome.reason == row.at(at) && outcome.limited_by == row.at(at + 1) &&
             outcome.tripped == (row.at(at + 6) == "1") && outcome.written.size() == expected.size();
      for (size_t i = 0; same && i < expected.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(outcome.written[i]) - static_cast<double>(expected[i])));
      same = same && outcome.written == expected;
      ++ticks;
      trips += outcome.tripped;
      if (!same)
        std::printf("  here: reason '%s', limited by '%s', written %zu numbers, first %.9g, tripped %d\n",
                    outcome.reason.c_str(), outcome.limited_by.c_str(), outcome.written.size(),
                    outcome.written.empty() ? 0.0 : static_cast<double>(outcome.written[0]), outcome.tripped);
    }
    if (!same && ++differences <= 10)
      std::printf("%s differs at line %d: %s\n", name.c_str(), line_number, line.c_str());
  }
  if (ticks == 0) throw std::runtime_error(std::string(table) + " holds no tick");
  std::printf("%d cases, %d ticks, %d of them latched: %d differ, largest difference %.1e\n", cases, ticks, trips,
              differences, worst);
  return differences == 0 ? 0 : 4;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s gate_cases.csv\n", arguments[0]);
    return 2;
  }
  try {
    return compare(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gate_table: %s\n", error.what());
    return 1;
  }
}
