// An etcd with fixed responses, for errors that a real one returns only in trouble. Listens on a
// free port of the loopback address; runs on the context of the caller.
#pragma once

#include <ddprun/store.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

class ScriptedEtcd {
 public:
  /// Response at each path; requests to others fail for lack of space.
  ScriptedEtcd(boost::asio::io_context& context, std::map<std::string, std::string> answers)
      : acceptor_(context, {boost::asio::ip::address_v4::loopback(), 0}),
        answers_(std::move(answers)) {
    accept();
  }

  StoreEndpoint endpoint() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }

  /// Number of requests to that path.
  auto count(const std::string& path) const {
    return std::count(asked_.begin(), asked_.end(), path);
  }

  /// Lets the context run out of work.
  void close() { acceptor_.close(); }

 private:
  struct Peer {
    explicit Peer(boost::asio::ip::tcp::socket connected) : socket(std::move(connected)) {}
    boost::asio::ip::tcp::socket socket;
    std::array<char, 8192> request{};
  };

  void accept() {
    acceptor_.async_accept([this](auto error, boost::asio::ip::tcp::socket socket) {
      if (error) return;
      on_message(std::make_shared<Peer>(std::move(socket)));
      accept();
    });
  }

  /// Requests are small, and a connection has one.
  void on_message(const std::shared_ptr<Peer>& peer) {
    const auto into = boost::asio::buffer(peer->request);
    peer->socket.async_read_some(into, [this, peer](auto error, std::size_t size) {
      if (error) return;
      const auto reply = answer(std::string(peer->request.data(), size));
      boost::asio::write(peer->socket, boost::asio::buffer(reply), error);
    });
  }

  std::string answer(const std::string& request) {
    const auto begin = request.find(' ') + 1;
    const auto path = request.substr(begin, request.find(' ', begin) - begin);
    asked_.push_back(path);
    const auto found = answers_.find(path);
    const bool is_known = found != answers_.end();
    const std::string body = is_known ? found->second : R"({"message": "no room"})";
    return std::string("HTTP/1.1 ") + (is_known ? "200 OK" : "500 No") +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  boost::asio::ip::tcp::acceptor acceptor_;
  std::map<std::string, std::string> answers_;
  std::vector<std::string> asked_;
};

}  // namespace ddprun::test
