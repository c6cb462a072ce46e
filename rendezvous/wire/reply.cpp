#include "rendezvous/wire/reply.hpp"

#include "rendezvous/wire/bytes.hpp"

#include <utility>

namespace ddprun::wire {

namespace {

struct AppendReply {
  std::string& out;

  void operator()(Answer answer) const { out.push_back(static_cast<char>(answer)); }
  void operator()(const Nonce& nonce) const { append_integer(out, nonce.value); }
  void operator()(const Number& number) const { append_integer(out, number.value); }
  void operator()(const Value& value) const { append_string(out, value.value); }
  void operator()(const Values& values) const {
    for (const auto& value : values.values) append_string(out, value);
  }
  void operator()(const Popped& popped) const {
    append_integer(out, popped.length_before);
    if (popped.length_before > 0) append_string(out, popped.value);
  }
  void operator()(Keys& keys) const {
    if (out.empty()) {
      out = std::move(keys.encoded);
    } else {
      out.append(keys.encoded);
    }
  }
  void operator()(const Notification& notification) const {
    const KeyChanged& changed = *notification.changed;
    out.push_back(static_cast<char>(changed.change));
    append_string(out, changed.key);
    append_string(out, changed.before);
    append_string(out, changed.after);
  }
};

}  // namespace

void append_reply(std::string& out, Reply reply) {
  std::visit(AppendReply{out}, reply);
}

}  // namespace ddprun::wire
