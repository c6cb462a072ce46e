#include "worker_runtime/backends/host/tcp/hello.hpp"

#include "rendezvous/base/random_bytes.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

namespace ddprun::tcp {

namespace {

static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<Answer>);

std::string_view bytes_of(const Hello& hello) {
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

}  // namespace

Hello make_hello(int from, int to) {
  Hello hello;
  hello.from = from;
  hello.to = to;
  const auto nonce = random_bytes(hello.nonce.size());
  std::copy(nonce.begin(), nonce.end(), hello.nonce.begin());
  return hello;
}

bool is_hello(const Hello& hello, int from, int to) {
  return hello.magic == Hello::kMagic && hello.from == from && hello.to == to;
}

Digest prove(Side side, const Digest& key, const Hello& of_caller, const Hello& of_listener) {
  std::string message(side == Side::caller ? "caller" : "listener");
  message.append(bytes_of(of_caller)).append(bytes_of(of_listener));
  return hmac_sha256(ddprun::bytes_of(key), message);
}

}  // namespace ddprun::tcp
