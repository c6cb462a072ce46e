// Header of the bytes that a rank sends to another one in a step of a collective. Both ranks know
// which frame to expect, so a difference shows that they called different collectives.
#pragma once

#include "worker_runtime/backends/host/shared_memory/layout.hpp"

#include <cstdint>
#include <type_traits>

namespace ddprun::tcp {

enum class FrameKind : std::uint32_t {
  data = 0x6464'7046,   // "ddpF"
  leave = 0x6464'704c,  // "ddpL": the last frame
};

struct Frame {
  FrameKind kind = FrameKind::data;
  std::uint32_t step = 0;  ///< step of the collective
  std::uint64_t bytes = 0;
  shared_memory::CallHeader call = {};
};
static_assert(std::is_trivially_copyable_v<Frame>);

}  // namespace ddprun::tcp
