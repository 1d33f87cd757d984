// Steps a SaMI model file with ONNX Runtime alone, for one robot. step() allocates nothing of its own.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace sami {

using Vector = std::vector<float>;

// A step that throws leaves state and previous action as they were, as in the Python runtime.
class Policy {
 public:
  explicit Policy(const std::filesystem::path& file) : env_(environment()), session_(env_, file.c_str(), options()) {
    Ort::AllocatorWithDefaultOptions allocator;
    const auto text = session_.GetModelMetadata().LookupCustomMetadataMapAllocated("sami.contract", allocator);
    if (!text) throw std::runtime_error(file.string() + " carries no sami.contract; use a file that sami export wrote");
    contract_ = nlohmann::json::parse(text.get());
    if (contract_.at("version") != 1) throw std::runtime_error(file.string() + " has a contract version other than 1");
    for (const auto& signal : contract_.at("observation")) {
      observation_names_.push_back(signal.at("name"));
      observations_.emplace_back(signal.at("size").get<size_t>());
    }
    for (const auto& output : contract_.value("extra_outputs", nlohmann::json::array()))
      extra_names_.push_back(output.at("name"));
    for (Memory& memory : memories_) {
      for (size_t i = 0; i < extra_names_.size(); ++i)
        memory.extra.emplace_back(contract_["extra_outputs"][i].at("size").get<size_t>());
      memory.action.resize(contract_.at("action").at("size").get<size_t>());
      if (!contract_.at("context").is_null()) memory.context.resize(contract_["context"].at("size").get<size_t>());
      for (const auto& tensor : contract_.at("state")) {
        size_t numbers = 1;
        for (size_t axis : tensor.at("shape")) numbers *= axis;
        memory.state.emplace_back(numbers);
      }
    }
    if (contract_.contains("lookahead")) {
      ages_.resize(observations_.size());
      most_ = contract_["lookahead"].at("steps").get<float>();
      while (contract_["state"][past_].at("name") != "past_actions") ++past_;
    }
    name_tensors();
    for (int read : {0, 1}) bind(read);
    reset();
  }
  Policy(const Policy&) = delete;  // onnxruntime holds addresses of its members
  Policy& operator=(const Policy&) = delete;

  // The contract: names, units, bounds, rate_hz.
  const nlohmann::json& contract() const { return contract_; }

  // Where the numbers of a signal go before step(), in the contract's unit.
  Vector& observation(const std::string& name) {
    for (size_t i = 0; i < observation_names_.size(); ++i)
      if (observation_names_[i] == name) return observations_[i];
    throw std::out_of_range("the policy reads no observation '" + name + "'");
  }

  // Takes over what was observed: every signal of the contract, of its size.
  void observe(const std::map<std::string, Vector>& values) {
    for (size_t i = 0; i < observation_names_.size(); ++i) {
      const auto found = values.find(observation_names_[i]);
      if (found == values.end() || found->second.size() != observations_[i].size())
        throw std::invalid_argument("observation '" + observation_names_[i] + "' is missing, or has another size");
      std::copy(found->second.begin(), found->second.end(), observations_[i].begin());
    }
  }

  // How old all signals are [periods], with what an action takes to have its effect, or each in the contract's order;
  // holds for the steps that follow. A file that does not look ahead takes all for the present.
  void age(float periods) { std::fill(ages_.begin(), ages_.end(), periods); }
  void age(const Vector& periods) {
    if (periods.size() != ages_.size()) throw std::invalid_argument("age() got ages of another number of signals");
    std::copy(periods.begin(), periods.end(), ages_.begin());  // where onnxruntime reads them
  }

  // The largest age that the policy acts on: an older observation is to be held. 0 where it does not look ahead.
  float looks_ahead() const { return most_; }

  // Lets a period pass without a step, where a tick is held or skipped: what was executed last stood. Before executed().
  void elapse() {
    if (ages_.empty()) return;
    Memory& memory = memories_[now_];
    Vector& past = memory.state[past_];
    std::copy_backward(past.begin(), past.end() - memory.action.size(), past.end());
    std::copy(memory.action.begin(), memory.action.end(), past.begin());
  }

  // A new episode: state and previous action take their initial values.
  void reset() {
    Memory& memory = memories_[now_];
    memory.action.assign(memory.action.size(), 0.0F);
    memory.context.assign(memory.context.size(), 0.0F);
    for (Vector& values : memory.extra) values.assign(values.size(), 0.0F);
    for (size_t i = 0; i < memory.state.size(); ++i)
      memory.state[i].assign(memory.state[i].size(), contract_["state"][i].at("initial").get<float>());
  }

  // The action for the observations that were written; it counts as executed unless executed() says otherwise.
  const Vector& step() {
    for (const Vector& values : observations_) require_finite(values, "observation");
    for (float periods : ages_)
      if (!(periods >= 0.0F && periods <= most_ + 1e-6F))
        throw std::runtime_error("an age is not within what the policy looks ahead; nothing was advanced");
    session_.Run(run_options_, input_names_.data(), inputs_[now_].data(), input_names_.size(), output_names_.data(),
                 outputs_[now_].data(), output_names_.size());
    const Memory& answer = memories_[1 - now_];
    require_finite(answer.action, "action");
    require_finite(answer.context, "context");
    for (const Vector& values : answer.extra) require_finite(values, "an output");
    for (const Vector& values : answer.state) require_finite(values, "state");
    now_ = 1 - now_;
    return answer.action;
  }

  // Takes the last step back, as if it had not been made, where its answer came too late; before executed(), and once.
  void undo() { now_ = 1 - now_; }

  const Vector& context() const { return memories_[now_].context; }

  // What the file tells besides: its probe's `probe_mass`, the present that it takes a signal for, `present_SIGNAL`.
  const std::vector<std::string>& extra_names() const { return extra_names_; }
  const Vector& extra(const std::string& name) const {
    const auto found = std::find(extra_names_.begin(), extra_names_.end(), name);
    if (found == extra_names_.end()) throw std::out_of_range("the policy answers no '" + name + "'");
    return memories_[now_].extra[found - extra_names_.begin()];
  }

  // What was really sent: the encoder learns from what was done, not from what was asked for.
  void executed(const Vector& action) {
    Vector& previous = memories_[now_].action;
    if (action.size() != previous.size()) throw std::invalid_argument("executed() got an action of another size");
    require_finite(action, "executed action");
    std::copy(action.begin(), action.end(), previous.begin());
  }

 private:
  struct Memory {
    Vector action, context;
    std::vector<Vector> extra, state;
  };

  static Ort::Env environment() {
#ifndef _WIN32
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);  // a robot reports to nobody
#endif
    return Ort::Env(ORT_LOGGING_LEVEL_FATAL, "sami");
  }

  static Ort::SessionOptions options() {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    options.SetInterOpNumThreads(1);
    options.AddConfigEntry("session.intra_op.allow_spinning", "0");
    return options;
  }

  static void require_finite(const Vector& values, const char* what) {
    for (float value : values)
      if (!std::isfinite(value)) throw std::runtime_error(std::string(what) + " is not finite; nothing was advanced");
  }

  void name_tensors() {
    const auto named = [this](std::string name) { return names_.emplace_back(std::move(name)).c_str(); };
    for (const auto& name : observation_names_) input_names_.push_back(named("observation." + name));
    if (!ages_.empty()) input_names_.push_back("age");
    input_names_.push_back("previous_action");
    output_names_.push_back("action");
    if (!memories_[0].context.empty()) output_names_.push_back("context");
    for (const auto& name : extra_names_) output_names_.push_back(name.c_str());
    for (const auto& tensor : contract_["state"]) {
      input_names_.push_back(named("state." + tensor.at("name").get<std::string>() + ".in"));
      output_names_.push_back(named("state." + tensor.at("name").get<std::string>() + ".out"));
    }
  }

  // Inputs that read one memory, outputs that write the other.
  void bind(int read) {
    const auto tensor = [this](Vector& values, std::vector<int64_t> shape) {
      shape.insert(shape.begin(), 1);
      return Ort::Value::CreateTensor<float>(cpu_, values.data(), values.size(), shape.data(), shape.size());
    };
    const auto flat = [&tensor](Vector& values) { return tensor(values, {static_cast<int64_t>(values.size())}); };
    Memory &from = memories_[read], &to = memories_[1 - read];
    for (Vector& values : observations_) inputs_[read].push_back(flat(values));
    if (!ages_.empty()) inputs_[read].push_back(flat(ages_));
    inputs_[read].push_back(flat(from.action));
    outputs_[read].push_back(flat(to.action));
    if (!to.context.empty()) outputs_[read].push_back(flat(to.context));
    for (Vector& values : to.extra) outputs_[read].push_back(flat(values));
    for (size_t i = 0; i < from.state.size(); ++i) {
      const auto shape = contract_["state"][i].at("shape").get<std::vector<int64_t>>();
      inputs_[read].push_back(tensor(from.state[i], shape));
      outputs_[read].push_back(tensor(to.state[i], shape));
    }
  }

  Ort::Env env_;
  Ort::Session session_;
  Ort::RunOptions run_options_;
  Ort::MemoryInfo cpu_ = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  nlohmann::json contract_;
  std::vector<std::string> observation_names_, extra_names_;
  std::deque<std::string> names_;  // a deque, because addresses of its strings are kept
  std::vector<Vector> observations_;
  Vector ages_;       // of each signal, where the file looks ahead
  float most_ = 0.0F;  // periods
  size_t past_ = 0;   // which state holds the actions executed before the previous one, newest first
  std::array<Memory, 2> memories_;
  std::array<std::vector<Ort::Value>, 2> inputs_, outputs_;
  std::vector<const char*> input_names_, output_names_;
  int now_ = 0;  // the memory that the next step reads
};

}  // namespace sami
