// Uses Asio of another Boost version than ddprun's, before, within and after spawn().
#include <ddprun/process_group.hpp>
#include <ddprun/spawn.hpp>

#include <boost/asio.hpp>
#include <boost/version.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

namespace asio = boost::asio;

/// Sends a message through a socket, and waits for a timer.
void exchange() {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket client(context);
  asio::ip::tcp::socket server(context);
  asio::steady_timer timer(context, std::chrono::microseconds(1));
  char byte = 0;
  bool has_rung = false;
  timer.async_wait([&](boost::system::error_code error) { has_rung = !error; });
  client.async_connect(acceptor.local_endpoint(), [&](boost::system::error_code error) {
    if (!error) asio::write(client, asio::buffer("x", 1));
  });
  acceptor.async_accept(server, [&](boost::system::error_code error) {
    if (error) return;
    asio::async_read(server, asio::buffer(&byte, 1), [](boost::system::error_code, std::size_t) {});
  });
  context.run();
  if (byte != 'x' || !has_rung) throw std::runtime_error("Asio has lost a message or a timer");
}

}  // namespace

int main() {
  exchange();
  ddprun::spawn(
      [](const ddprun::WorkerEnv& env) {
        exchange();
        auto group = ddprun::ProcessGroup::create(env);
        auto sum = static_cast<float>(env.rank);
        group.all_reduce(ddprun::as_buffer(&sum, 1)).wait();
        if (sum != 3) throw std::runtime_error("the sum is " + std::to_string(sum));
      },
      3);
  exchange();
  std::printf("worked with Boost %s\n", BOOST_LIB_VERSION);
}
