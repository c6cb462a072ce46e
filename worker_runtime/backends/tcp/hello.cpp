#include "worker_runtime/backends/tcp/hello.hpp"

#include <algorithm>
#include <string_view>

namespace ddprun::tcp {

bool is_hello(const Hello& hello, const std::string& token, int from, int to) {
  return hello.magic == Hello::kMagic && hello.from == from && hello.to == to &&
         std::string_view(hello.token.data(), hello.token.size()) == token;
}

Hello make_hello(const std::string& token, int from, int to) {
  Hello hello;
  hello.from = from;
  hello.to = to;
  std::copy_n(token.begin(), std::min(token.size(), hello.token.size()), hello.token.begin());
  return hello;
}

}  // namespace ddprun::tcp
