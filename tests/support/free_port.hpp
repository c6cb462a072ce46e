// A port at which a program of a test is to listen.
#pragma once

#include "rendezvous/store/listener.hpp"

#include <string>

namespace ddprun::test {

/// Kept for as long as this lives: nobody else gets it by chance before the program asks for it, or
/// between two programs that are to have it in turn.
class FreePort {
 public:
  FreePort() : reservation_(0) {}

  int number() const { return reservation_.port(); }
  std::string text() const { return std::to_string(number()); }

 private:
  PortReservation reservation_;
};

}  // namespace ddprun::test
