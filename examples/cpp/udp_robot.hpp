// A networked robot for POSIX systems; examples/udp_robot.py simulates it. Replace this file by your own robot's.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>

namespace sami {

// Reads the newest JSON datagram and sends actions. Times are by the clock of now(), as in the Python example.
class UdpRobot {
 public:
  UdpRobot() : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    const sockaddr_in local = at(static_cast<uint16_t>(port() + 1));
    const timeval second{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&local), sizeof local) != 0)
      throw std::runtime_error("UDP port " + std::to_string(port() + 1) + " is taken; is another program driving the robot?");
  }
  UdpRobot(const UdpRobot&) = delete;
  UdpRobot& operator=(const UdpRobot&) = delete;
  ~UdpRobot() { ::close(socket_); }

  // Also counts the time while the machine is suspended, for the gate's limit on pauses; Linux's steady_clock does not.
  static double now() {
#ifdef CLOCK_BOOTTIME
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
#else
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
#endif
  }

  // Begins an episode: drops earlier observations.
  void reset() {
    send(R"({"reset": 0})");
    while (received(MSG_DONTWAIT)) continue;
    observed_ = false;
    ahead_ = std::numeric_limits<double>::infinity();
  }

  // Reads the newest observation; waits only for the first one of an episode, at most 1 s.
  template <class M>
  void read(Observation<M>& observation) {
    while (received(observed_ ? MSG_DONTWAIT : 0)) {
      double stamp = 0.0;
      numbers("time", &stamp, 1);
      ahead_ = std::min(ahead_, now() - stamp);
      observation.time = stamp + ahead_;
      for (size_t s = 0; s < M::kSignals; ++s) {
        const auto begin = static_cast<size_t>(M::kSignalBegin[s]), end = static_cast<size_t>(M::kSignalBegin[s + 1]);
        numbers(M::kSignalNames[s], &observation.values[begin], end - begin);
      }
      observed_ = true;
    }
    if (!observed_) throw std::runtime_error("the robot sent nothing for a second. Is it running?");
  }

  // Returns the executed action: a robot that limits actions has to report the limited one.
  template <class Action>
  Action write(const Action& action) {
    std::string message = "{\"action\": [";
    char text[32];
    for (const float value : action) {
      std::snprintf(text, sizeof text, "%s%.9g", message.back() == '[' ? "" : ", ", static_cast<double>(value));
      message += text;
    }
    send(message + "]}");
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

  // Receives the robot's next datagram; anybody can send to this port.
  bool received(int flags) {
    const sockaddr_in robot = at(port());
    sockaddr_in sender{};
    socklen_t length = sizeof sender;
    do {
      size_ = ::recvfrom(socket_, datagram_.data(), datagram_.size() - 1, flags, reinterpret_cast<sockaddr*>(&sender), &length);
    } while (size_ >= 0 && (sender.sin_port != robot.sin_port || sender.sin_addr.s_addr != robot.sin_addr.s_addr));
    if (size_ >= 0) datagram_[static_cast<size_t>(size_)] = '\0';
    return size_ >= 0;
  }

  // Reads a key's number or list of numbers: the part of JSON that this robot needs.
  template <class Number>
  void numbers(const char* key, Number* values, size_t count) const {
    const std::string quoted = '"' + std::string(key) + "\":";
    const char* text = std::strstr(datagram_.data(), quoted.c_str());
    if (text == nullptr) throw std::runtime_error(std::string("the robot sent no ") + key);
    text += quoted.size();
    for (size_t i = 0; i < count; ++i) {
      text += std::strspn(text, " [,");
      char* end = nullptr;
      values[i] = static_cast<Number>(std::strtod(text, &end));
      if (end == text) throw std::runtime_error(std::string("the robot sent too few numbers of ") + key);
      text = end;
    }
  }

  void send(const std::string& message) {
    if (!put(message)) throw std::runtime_error("the robot cannot be reached");
  }

  // The first of two ports, as in the Python example.
  static uint16_t port() {
    const char* text = std::getenv("UDP_ROBOT_PORT");
    return static_cast<uint16_t>(text ? std::atoi(text) : 47001);
  }

  bool put(const std::string& message) noexcept {
    const sockaddr_in robot = at(port());
    return ::sendto(socket_, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&robot), sizeof robot) >= 0;
  }

  int socket_;
  std::array<char, 65536> datagram_{};
  ssize_t size_ = 0;
  bool observed_ = false;
  double ahead_ = std::numeric_limits<double>::infinity();
};

}  // namespace sami
