// The rendezvous with very many clients, server and clients in a process each, over loopback:
//   rendezvous_bench round 1000    a round of this number of agents, from the first connection
//                                  to the end
//   rendezvous_bench clients 4000  resources of a store with this number of connected workers
#include "rendezvous/membership/agent_connection.hpp"
#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/coordinator.hpp"
#include "rendezvous/store/store_server.hpp"
#include <ddprun/store.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace asio = boost::asio;
using namespace ddprun;
using namespace ddprun::membership;
using Clock = std::chrono::steady_clock;

namespace {

const security::Secret& secret() {
  static const auto secret = security::Secret::from_bytes(std::string(64, '7'), "the benchmark");
  return secret;
}

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Store and coordinator of a run's host, in their own process.
class Server {
 public:
  explicit Server(int nodes) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) serve(nodes, ends[1]);
    if (::read(ends[0], &endpoint_.port, sizeof endpoint_.port) <= 0) std::abort();
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  const StoreEndpoint& endpoint() const { return endpoint_; }

  /// A line of its status: "VmRSS", "VmHWM".
  double mebibytes(const std::string& name) const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1)) / 1024;
    }
    return 0;
  }

 private:
  [[noreturn]] static void serve(int nodes, int port_pipe) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    asio::io_context context(1);
    std::optional<Coordinator> coordinator;
    StoreServerOptions options;
    options.other_greeting = std::string(kGreeting);
    options.hand_over = [&](int fd, std::string_view bytes) { coordinator->admit(fd, bytes); };
    StoreServer store(context.get_executor(), std::move(options));
    const Settings settings{.run_id = "bench", .nodes_min = nodes, .nodes_max = nodes};
    coordinator.emplace(
        context.get_executor(), settings, &secret(), LeadershipTerm{}, [&] { store.new_attempt(); },
        Log());
    store.start();
    const auto port = store.endpoint().port;
    if (::write(port_pipe, &port, sizeof port) < 0) std::abort();
    context.run();
    std::abort();
  }

  pid_t pid_ = -1;
  StoreEndpoint endpoint_{.host = "127.0.0.1", .port = 0};
};

struct RoundTimes {
  int formed = 0;
  int finished = 0;
  double all_formed_ms = 0;
  double all_finished_ms = 0;
};

/// All messages of an agent in a run with idle workers.
asio::awaitable<void> be_agent(StoreEndpoint endpoint, int number, int nodes,
                               Clock::time_point begin, RoundTimes& times) {
  const auto executor = co_await asio::this_coro::executor;
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  const auto connected = co_await connect_to(endpoint, deadline);
  if (connected.fd < 0) throw std::runtime_error(connected.problem);
  AgentConnection connection(executor, connected.fd, &secret(), "bench");
  connection.send(Join{.run_id = "bench",
                       .name = "node" + std::to_string(number),
                       .local_world_size = 8,
                       .nodes_min = nodes,
                       .nodes_max = nodes});
  while (auto message = co_await connection.receive()) {
    if (std::holds_alternative<RoundFormed>(*message)) {
      if (++times.formed == nodes) times.all_formed_ms = milliseconds_since(begin);
      connection.send(WorkersEnded{.round = 0, .have_succeeded = true});
    }
    if (std::holds_alternative<Finish>(*message)) {
      if (++times.finished == nodes) times.all_finished_ms = milliseconds_since(begin);
      co_return;
    }
  }
}

void measure_round(int nodes) {
  const Server server(nodes);
  asio::io_context context(1);
  RoundTimes times;
  const auto begin = Clock::now();
  for (int i = 0; i < nodes; ++i) {
    asio::co_spawn(context, be_agent(server.endpoint(), i, nodes, begin, times),
                   [](const std::exception_ptr& failure) {
                     if (failure) std::rethrow_exception(failure);
                   });
  }
  context.run();
  std::printf(
      "%d of %d agents in a round after %.0f ms, at its end after %.0f ms; "
      "the host's peak memory %.1f MiB\n",
      times.formed, nodes, times.all_formed_ms, times.all_finished_ms, server.mebibytes("VmHWM"));
}

void measure_clients(int number) {
  const Server server(1);
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  const double before = server.mebibytes("VmRSS");
  std::vector<Store> clients;
  const auto begin = Clock::now();
  for (int i = 0; i < number; ++i) {
    clients.push_back(Store::connect(server.endpoint(), deadline));
    clients.back().set("address of rank " + std::to_string(i), std::string(100, 'a'), deadline);
  }
  std::printf(
      "%d clients, each with a key, after %.0f ms; the store's memory %.1f MiB, %.1f before\n",
      number, milliseconds_since(begin), server.mebibytes("VmRSS"), before);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  const int number = argc == 3 ? std::atoi(argv[2]) : 0;
  if ((what != "round" && what != "clients") || number < 1) {
    std::fprintf(stderr, "usage: %s round|clients NUMBER\n", argv[0]);
    return 2;
  }
  raise_descriptor_limit();
  if (what == "round") measure_round(number);
  if (what == "clients") measure_clients(number);
}
