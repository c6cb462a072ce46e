#include "tests/fuzz/checkpoint_target.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/fuzz/promise.hpp"
#include "worker_runtime/data/checkpoint_file.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <variant>

namespace ddprun::fuzz {

void run_checkpoint(std::span<const std::uint8_t> input) {
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
  ::lseek(copy.get(), 0, SEEK_SET);
  const auto again = read_checkpoint(copy.get());
  require(std::holds_alternative<Checkpoint>(again) && std::get<Checkpoint>(again) == *checkpoint,
          "a checkpoint that is written is read again");
}

}  // namespace ddprun::fuzz
