// Prints results of the store table in failed tests: "1 <- ready, 2 <- value \"v\"".
#pragma once

#include "rendezvous/store/store_table.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::test {

/// One for each alternative of wire::Reply.
struct ReplyPrinter {
  std::ostream& out;

  void operator()(wire::Answer answer) const { out << "answer " << static_cast<int>(answer); }
  void operator()(const wire::Nonce& nonce) const { out << "nonce " << nonce.value; }
  void operator()(const wire::Number& number) const { out << "number " << number.value; }
  void operator()(const wire::Value& value) const { print("value", {value.value}); }
  void operator()(const wire::Values& values) const { print("values", values.values); }
  void operator()(const wire::Keys& keys) const {
    print("keys", std::vector<std::string>{keys.encoded});
  }
  void operator()(const wire::Popped& popped) const {
    out << "of " << popped.length_before << ' ';
    print("popped", {popped.value});
  }
  void operator()(const wire::Notification& notification) const {
    const wire::KeyChanged& changed = *notification.changed;
    out << "change " << static_cast<int>(changed.change) << ' ';
    print("of", {changed.key, changed.before, changed.after});
  }

 private:
  void print(const char* what, const std::vector<std::string>& texts) const {
    out << what;
    for (const auto& text : texts) out << " \"" << text << '"';
  }
};

inline std::ostream& print_deliveries(std::ostream& out, const std::vector<Delivery>& deliveries) {
  if (deliveries.empty()) out << "no reply";
  const char* separator = "";
  for (const auto& [client, reply] : deliveries) {
    out << separator << client << " <- ";
    std::visit(ReplyPrinter{out}, reply);
    separator = ", ";
  }
  return out;
}

}  // namespace ddprun::test

namespace ddprun {

inline std::ostream& operator<<(std::ostream& out, const StoreOutcome& outcome) {
  test::print_deliveries(out, outcome.replies);
  return outcome.refusal.empty() ? out : out << ", refused: " << outcome.refusal;
}

}  // namespace ddprun

template <>
struct doctest::StringMaker<std::vector<ddprun::Delivery>> {
  static doctest::String convert(const std::vector<ddprun::Delivery>& deliveries) {
    std::ostringstream text;
    ddprun::test::print_deliveries(text, deliveries);
    return text.str().c_str();
  }
};
