// A free port for a program of a test to listen at.
#pragma once

#include "rendezvous/store/listener.hpp"

#include <string>

namespace ddprun::test {

/// Reserved for the lifetime of this: no other process gets it by chance before the program binds
/// it, or between two programs that use it in turn.
class FreePort {
 public:
  FreePort() : reservation_(0) {}

  int number() const { return reservation_.port(); }
  std::string text() const { return std::to_string(number()); }

 private:
  PortReservation reservation_;
};

}  // namespace ddprun::test
