// Drives the gate through a table of cases and compares every ruling with that of the Python gate.
//
//     c++ -std=c++17 -O2 -ffp-contract=off gate_table.cpp -o gate_table && ./gate_table gate_cases.csv
//
// Exit code 0 where all agree to the last bit, 4 where one differs, 1 for anything else. The rows: see gate_cases.py.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "sami_gate.hpp"

namespace {

using Row = std::vector<std::string>;

Row cells(const std::string& line) {
  Row row;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) row.push_back(cell);
  return row;
}

sami::Vector vector_at(const Row& row, size_t at) {
  if (row.at(at) == "-") return {};
  return {std::stof(row.at(at)), std::stof(row.at(at + 1))};
}

sami::Gate gate_of(const Row& row) {
  sami::Limits limits;
  limits.elements = {"fx", "fy"};
  limits.period = 1.0 / std::stod(row.at(2));
  limits.hold_ticks = std::stoi(row.at(3));
  limits.stop_after = std::stoi(row.at(4));
  limits.max_age_s = std::stod(row.at(5));
  limits.max_pause_s = std::stod(row.at(6));
  limits.low = vector_at(row, 7);
  limits.high = vector_at(row, 9);
  limits.rate = {std::stod(row.at(11)), std::stod(row.at(12))};
  limits.rest = vector_at(row, 13);
  return sami::Gate(limits);
}

// What came of a tick, in the words of the table.
struct Outcome {
  std::string reason, limited_by;
  sami::Vector written;
  bool tripped;
};

Outcome drive(sami::Gate& gate, const Row& row) {
  const double now = std::stod(row.at(1)), stamp = std::stod(row.at(2));
  const int ticks = std::stoi(row.at(3));
  const sami::Vector proposed = vector_at(row, 4), sent = vector_at(row, 10);
  std::string reason = gate.fault(stamp, now);
  const sami::Ruling* ruling = nullptr;
  if (reason.empty()) try {
      ruling = &gate.propose(proposed, now, ticks);
    } catch (const std::exception& error) {
      reason = std::string("refused: ") + error.what();
    }
  if (ruling == nullptr) ruling = &gate.hold(reason, now, ticks);
  sami::Vector written;
  gate.write(*ruling, [&](const sami::Vector& action) {
    written = action;
    return sent.empty() ? action : sent;
  });
  if (!ruling->reason.empty()) reason = ruling->reason;
  std::string limited_by;
  for (const auto& name : ruling->limited_by) limited_by += (limited_by.empty() ? "" : ";") + name;
  return {reason.substr(0, reason.find(':')), limited_by, written, !gate.tripped().empty()};
}

bool begins(sami::Gate& gate) {
  try {
    gate.begin();
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

int compare(const char* table) {
  std::ifstream file(table);
  if (!file) throw std::runtime_error(std::string(table) + " cannot be read");
  std::vector<sami::Gate> gate;  // of the case that is driven
  int cases = 0, ticks = 0, trips = 0, line_number = 0, differences = 0;
  double worst = 0.0;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    if (line.empty() || line[0] == '#') continue;
    const Row row = cells(line);
    bool same = true;
    if (row[0] == "case") {
      gate.assign(1, gate_of(row));
      name = row.at(1);
      ++cases;
    } else if (gate.empty()) {
      throw std::runtime_error("line " + std::to_string(line_number) + " belongs to no case");
    } else if (row[0] == "begin") {
      same = begins(gate[0]) == (row.at(1) == "1");
    } else if (row[0] == "rearm") {
      gate[0].rearm();
    } else {
      const Outcome outcome = drive(gate[0], row);
      const sami::Vector expected = vector_at(row, 8);
      same = outcome.reason == row.at(6) && outcome.limited_by == row.at(7) && outcome.tripped == (row.at(12) == "1") &&
             outcome.written.size() == expected.size();
      for (size_t i = 0; same && i < expected.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(outcome.written[i]) - expected[i]));
      same = same && outcome.written == expected;
      ++ticks;
      trips += outcome.tripped;
      if (!same)
        std::printf("  here: reason '%s', limited by '%s', written %zu numbers, first %.9g, tripped %d\n",
                    outcome.reason.c_str(), outcome.limited_by.c_str(), outcome.written.size(),
                    outcome.written.empty() ? 0.0 : outcome.written[0], outcome.tripped);
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
