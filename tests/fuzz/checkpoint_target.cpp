#include "tests/fuzz/checkpoint_target.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/fuzz/promise.hpp"
#include "worker_runtime/data/checkpoint_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>
#include <variant>
#include <vector>

namespace ddprun::fuzz {

namespace {

constexpr std::size_t kLengthAt = 24, kLengthBytes = 8, kChecksumBytes = 4;

void put_integer(std::span<std::uint8_t> bytes, std::uint64_t value) {
  for (auto& byte : bytes) {
    byte = static_cast<std::uint8_t>(value);
    value >>= 8;
  }
}

/// With the right length and checksum, which a fuzzer rarely finds.
std::vector<std::uint8_t> repaired(std::span<const std::uint8_t> input) {
  std::vector<std::uint8_t> file(input.begin(), input.end());
  file.resize(std::max(file.size(), kLengthAt + kLengthBytes + kChecksumBytes));
  const std::span<std::uint8_t> bytes(file);
  put_integer(bytes.subspan(kLengthAt, kLengthBytes), file.size());
  put_integer(bytes.last(kChecksumBytes), ::crc32_z(0, file.data(), file.size() - kChecksumBytes));
  return file;
}

void read_file(std::span<const std::uint8_t> input) {
  const UniqueFd file(::memfd_create("checkpoint", MFD_CLOEXEC));
  require(::write(file.get(), input.data(), input.size()) == static_cast<ssize_t>(input.size()),
          "memory is a file");
  ::lseek(file.get(), 0, SEEK_SET);
  const auto result = read_checkpoint(file.get());
  const auto* checkpoint = std::get_if<Checkpoint>(&result);
  if (checkpoint == nullptr) {
    require(!std::get<CheckpointDamage>(result).reason.empty(), "damage has a reason");
    return;
  }
  check_checkpoint(*checkpoint);
  const UniqueFd copy(::memfd_create("checkpoint", MFD_CLOEXEC));
  write_checkpoint(copy.get(), *checkpoint);
  require(::lseek(copy.get(), 0, SEEK_CUR) == static_cast<off_t>(input.size()),
          "nothing of a checkpoint is lost");
  ::lseek(copy.get(), 0, SEEK_SET);
  const auto again = read_checkpoint(copy.get());
  require(std::holds_alternative<Checkpoint>(again) && std::get<Checkpoint>(again) == *checkpoint,
          "a checkpoint that is written is read again");
}

}  // namespace

void run_checkpoint(std::span<const std::uint8_t> input) {
  read_file(input);
  read_file(repaired(input));
}

}  // namespace ddprun::fuzz
