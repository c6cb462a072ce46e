#include "worker_runtime/backends/mpi/mpi_messages.hpp"

#include "worker_runtime/backends/mpi/mpi_world.hpp"
#include <ddprun/error.hpp>

#include <limits>
#include <string>

namespace ddprun::mpi {

namespace {

// Limit that ProcessGroup::send() documents.
constexpr std::size_t kUnderWayMax = 32;

int byte_count(Buffer buffer) {
  if (buffer.bytes() <= std::numeric_limits<int>::max()) return static_cast<int>(buffer.bytes());
  throw Error(Errc::usage, "a message of " + std::to_string(buffer.bytes()) +
                               " bytes exceeds MPI's limit of 2147483647");
}

}  // namespace

Messages::Messages(MPI_Comm communicator) : communicator_(communicator) {
  int* most = nullptr;
  int is_set = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &is_set), "MPI_Comm_get_attr");
  tag_max_ = is_set != 0 ? *most : 32767;  // guaranteed by the standard
}

void Messages::check_tag(int tag) const {
  if (tag >= 0 && tag <= tag_max_) return;
  throw Error(Errc::usage, "tag " + std::to_string(tag) + " is not within 0.." +
                               std::to_string(tag_max_) + ", the range of this MPI");
}

void Messages::send(Buffer buffer, int to, int tag) {
  check_tag(tag);
  const int bytes = byte_count(buffer);
  auto& sent = under_way_[to];
  if (sent.size() == kUnderWayMax) {
    check(MPI_Wait(&sent.front().request, MPI_STATUS_IGNORE), "MPI_Wait");
    sent.pop_front();
  }
  const auto* const begin = static_cast<const std::uint8_t*>(buffer.data);
  Sent& last = sent.emplace_back(Sent{{begin, begin + bytes}});
  check(MPI_Isend(last.bytes.data(), bytes, MPI_BYTE, to, tag, communicator_, &last.request),
        "MPI_Isend");
}

void Messages::receive(Buffer buffer, int from, int tag) {
  check_tag(tag);
  const int wanted = byte_count(buffer);
  MPI_Status status;
  check(MPI_Recv(buffer.data, wanted, MPI_BYTE, from, tag, communicator_, &status), "MPI_Recv");
  int got = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &got), "MPI_Get_count");
  if (got == wanted) return;
  throw Error(Errc::usage, "recv of " + std::to_string(wanted) + " bytes from rank " +
                               std::to_string(from) + ", which sent " + std::to_string(got));
}

void Messages::flush() {
  for (auto& [to, sent] : under_way_) {
    for (; !sent.empty(); sent.pop_front())
      check(MPI_Wait(&sent.front().request, MPI_STATUS_IGNORE), "MPI_Wait");
  }
}

}  // namespace ddprun::mpi
