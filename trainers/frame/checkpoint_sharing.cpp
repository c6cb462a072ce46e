#include "trainers/frame/checkpoint_sharing.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace trainer {

namespace {

using ddprun::Checkpoint;

/// A checkpoint for transfer: the concatenated sections, and an index with their sizes. An empty
/// index means that there is no checkpoint.
struct Parcel {
  std::string index;
  std::vector<std::byte> content;
};

Parcel pack(const Checkpoint& checkpoint) {
  Parcel parcel;
  nlohmann::json sizes = nlohmann::json::object();
  for (const auto& [name, bytes] : checkpoint.sections) {
    sizes[name] = bytes.size();
    parcel.content.insert(parcel.content.end(), bytes.begin(), bytes.end());
  }
  parcel.index = nlohmann::json({{"step", checkpoint.step}, {"sizes", sizes}}).dump();
  return parcel;
}

Checkpoint unpack(const Parcel& parcel) {
  const auto index = nlohmann::json::parse(parcel.index);
  Checkpoint checkpoint = {.step = index.at("step"), .sections = {}};
  auto position = parcel.content.begin();
  // In the order of packing: both maps are sorted by name.
  for (const auto& [name, size] : index.at("sizes").items()) {
    const auto end = position + size.get<std::ptrdiff_t>();
    checkpoint.sections[name].assign(position, end);
    position = end;
  }
  return checkpoint;
}

}  // namespace

std::optional<Checkpoint> share_checkpoint(ddprun::ProcessGroup& group,
                                           std::optional<Checkpoint> own) {
  Parcel parcel;
  if (group.rank() == 0 && own) parcel = pack(*own);
  std::array<std::int64_t, 2> sizes = {static_cast<std::int64_t>(parcel.index.size()),
                                       static_cast<std::int64_t>(parcel.content.size())};
  group.broadcast(ddprun::as_buffer(sizes.data(), sizes.size()), 0).wait();
  if (sizes[0] == 0) return std::nullopt;

  parcel.index.resize(static_cast<std::size_t>(sizes[0]));
  parcel.content.resize(static_cast<std::size_t>(sizes[1]));
  const auto share = [&](void* data, std::size_t bytes) {
    group.broadcast({data, bytes, ddprun::DataType::uint8, {}}, 0).wait();
  };
  share(parcel.index.data(), parcel.index.size());
  share(parcel.content.data(), parcel.content.size());
  return group.rank() == 0 ? std::move(own) : unpack(parcel);
}

}  // namespace trainer
