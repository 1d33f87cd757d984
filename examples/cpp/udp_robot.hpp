// A robot behind a network, for POSIX systems: what examples/udp_robot.py plays, and the part to replace by your own.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace sami {

// Reads JSON datagrams, the newest one, and sends actions. Times are those of now(), as in the Python example.
class UdpRobot {
 public:
  struct Observation {
    std::map<std::string, std::vector<float>> values;
    double time = 0.0;  // when it was measured [s]
  };

  UdpRobot() : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    const sockaddr_in here = at(port() + 1);
    const timeval second{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0)
      throw std::runtime_error("UDP port " + std::to_string(port() + 1) + " is taken; is another program driving the robot?");
  }
  UdpRobot(const UdpRobot&) = delete;
  UdpRobot& operator=(const UdpRobot&) = delete;
  ~UdpRobot() { ::close(socket_); }

  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // Begins an episode: what was measured before does not count.
  void reset() {
    send({{"reset", 0}});
    while (received(MSG_DONTWAIT)) continue;
    observed_ = false;
    ahead_ = std::numeric_limits<double>::infinity();
  }

  // The newest observation; waits only for the first one of an episode, a second at most.
  const Observation& read() {
    while (received(observed_ ? MSG_DONTWAIT : 0)) {
      const auto message = nlohmann::json::parse(datagram_.data(), datagram_.data() + size_);
      const double stamp = message.at("time").get<double>();
      ahead_ = std::min(ahead_, now() - stamp);
      observation_ = {message.at("values").get<std::map<std::string, std::vector<float>>>(), stamp + ahead_};
      observed_ = true;
    }
    if (!observed_) throw std::runtime_error("the robot sent nothing for a second. Is it running?");
    return observation_;
  }

  // Returns what was executed: a robot that limits the action has to say so.
  std::vector<float> write(const std::vector<float>& action) {
    send({{"action", action}});
    return action;
  }

  void stop() noexcept {
    static const std::string message = R"({"stop": true})";
    put(message);
  }

 private:
  static sockaddr_in at(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  bool received(int flags) {
    size_ = ::recv(socket_, datagram_.data(), datagram_.size(), flags);
    return size_ >= 0;
  }

  void send(const nlohmann::json& message) {
    if (!put(message.dump())) throw std::runtime_error("the robot cannot be reached");
  }

  // The first of two, as in the Python example.
  static int port() {
    const char* told = std::getenv("UDP_ROBOT_PORT");
    return told ? std::atoi(told) : 47001;
  }

  bool put(const std::string& message) noexcept {
    const sockaddr_in robot = at(port());
    return ::sendto(socket_, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&robot), sizeof robot) >= 0;
  }

  int socket_;
  std::array<char, 65536> datagram_{};
  ssize_t size_ = 0;
  Observation observation_;
  bool observed_ = false;
  double ahead_ = std::numeric_limits<double>::infinity();
};

}  // namespace sami
