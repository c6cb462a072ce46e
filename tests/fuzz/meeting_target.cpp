#include "tests/fuzz/meeting_target.hpp"

#include "tests/fuzz/promise.hpp"
#include "worker_runtime/backends/host/tcp/meeting.hpp"

#include <poll.h>
#include <sys/socket.h>

namespace ddprun::fuzz {

namespace {

constexpr int kPatience = 1000;  // milliseconds

void proceed(tcp::PeerMeeting& meeting) {
  auto wanted = meeting.wanted();
  if (::poll(wanted.data(), wanted.size(), kPatience) > 0) meeting.proceed(wanted);
}

}  // namespace

void run_meeting(std::span<const std::uint8_t> input) {
  const tcp::Listening listening = tcp::listen_for_peers("127.0.0.1");
  const std::vector<tcp::PeerAddress> peers(2, listening.address);
  tcp::PeerMeeting meeting(0, sha256("the group's key"), peers, listening.socket.fd());
  {
    const auto caller = tcp::dial("127.0.0.1", listening.address.port);
    require(caller.error == 0, "the rank accepts callers");
    proceed(meeting);
    // In two parts, as a network may deliver them. The rank may close the connection after the
    // first one.
    const auto half = input.size() / 2;
    for (const auto part : {input.first(half), input.subspan(half)}) {
      if (part.empty() || meeting.wanted().size() == 1) continue;
      require(::send(caller.socket.fd(), part.data(), part.size(), MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(part.size()),
              "so few bytes fit");
      proceed(meeting);
    }
  }
  if (meeting.wanted().size() > 1) proceed(meeting);
  require(meeting.wanted().size() == 1, "a caller that hung up is forgotten");
  require(meeting.take().empty(), "a caller without the key is no rank");
  require(meeting.unreachable().empty(), "nothing has been called");
}

}  // namespace ddprun::fuzz
