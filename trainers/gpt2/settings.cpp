#include "trainers/gpt2/settings.hpp"

#include "trainers/frame/text.hpp"
#include "trainers/gpt2/checksum.hpp"
#include <ddprun/buffer.hpp>
#include <ddprun/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace trainer::gpt2 {

namespace {

using ddprun::Errc;
using ddprun::Error;

std::string checksum_text(const TokenFile& file) {
  return format("%016llx", static_cast<unsigned long long>(file.checksum()));
}

/// "rank 3", "ranks 0, 1, 2 and 5 more".
std::string describe_ranks(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kNamed = 8;  // maximum number of ranks in a message
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kNamed) text += " and " + std::to_string(ranks.size() - kNamed) + " more";
  return text;
}

/// Returns an empty string if all ranks have the same value of this setting.
std::string describe_difference(std::span<const Settings> ranks, const std::string& name) {
  constexpr std::size_t kNamed = 4;  // maximum number of values in a message
  std::vector<std::string> values;   // in order of the first rank with each
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto found = ranks[rank].find(name);
    const std::string value = found == ranks[rank].end() ? "not there" : text_of(*found);
    if (!ranks_of.contains(value)) values.push_back(value);
    ranks_of[value].push_back(rank);
  }
  if (values.size() == 1) return "";
  std::string text = display_name(name) + " is ";
  for (std::size_t i = 0; i < std::min(values.size(), kNamed); ++i) {
    text += (i == 0 ? "" : " and ") + values[i] + " on " + describe_ranks(ranks_of[values[i]]);
  }
  return values.size() > kNamed ? text + " and others elsewhere" : text;
}

/// Gathers the numbers of all ranks, in rank order.
template <typename Number>
std::vector<Number> gather(ddprun::ProcessGroup& group, const std::vector<Number>& own) {
  std::vector<Number> all(own.size() * static_cast<std::size_t>(group.size()));
  std::vector<Number> input = own;
  const ddprun::Work work = group.all_gather(ddprun::as_buffer(input.data(), input.size()),
                                             ddprun::as_buffer(all.data(), all.size()));
  work.wait();
  return all;
}

}  // namespace

Settings settings_of(const Options& options, const ddprun::WorkerEnv& env, const TokenFile& data) {
  const Shape& shape = options.shape;
  Settings settings = {{"tokens", data.size()},
                       {"data_checksum", checksum_text(data)},
                       {"layers", shape.layers},
                       {"heads", shape.heads},
                       {"channels", shape.channels},
                       {"context", shape.context},
                       {"vocabulary", shape.vocabulary},
                       {"device", options.device},
                       {"dtype", options.dtype},
                       {"threads", options.threads},
                       {"batch_size", options.batch_size},
                       {"gradient_accumulation", options.gradient_accumulation},
                       {"steps", options.steps},
                       {"lr", options.lr},
                       {"lr_schedule", options.lr_schedule},
                       {"lr_final", options.lr_final},
                       {"warmup_steps", options.warmup_steps},
                       {"beta1", options.beta1},
                       {"beta2", options.beta2},
                       {"weight_decay", options.weight_decay},
                       {"gradient_norm_max", options.gradient_norm_max},
                       {"seed", options.seed}};
  // The number of workers is then not a setting.
  if (options.global_batch_size > 0) {
    settings["global_batch_size"] = options.global_batch_size;
  } else {
    settings["workers"] = env.world_size;
  }
  return settings;
}

Settings common_settings(const Options& options, const ddprun::WorkerEnv& env,
                         const TokenFile& data, const TokenFile* test_data) {
  Settings settings = settings_of(options, env, data);
  settings.erase("workers");
  settings["global_batch_size"] = options.global_batch_size;
  settings["bucket_cap_mb"] = options.bucket_cap_mb;
  settings["cuda_graph"] = options.cuda_graph;
  settings["test_data_checksum"] = test_data == nullptr ? "none" : checksum_text(*test_data);
  settings["test_every"] = options.test_every;
  settings["test_sequences"] = options.test_sequences;
  return settings;
}

std::string display_name(const std::string& setting) {
  if (setting == "tokens") return "the number of tokens in --data";
  if (setting == "data_checksum") return "the checksum of --data";
  if (setting == "test_data_checksum") return "the checksum of --test_data";
  return setting == "workers" ? "the number of workers" : "--" + setting;
}

std::string text_of(const Settings& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string describe_differences(std::span<const Settings> ranks) {
  std::set<std::string> names;
  for (const Settings& settings : ranks) {
    for (const auto& [name, value] : settings.items()) names.insert(name);
  }
  std::string text;
  for (const std::string& name : names) {
    const std::string difference = describe_difference(ranks, name);
    if (!difference.empty()) text += (text.empty() ? "" : "; ") + difference;
  }
  return text;
}

void require_same_settings(ddprun::ProcessGroup& group, const Settings& own) {
  if (group.size() == 1) return;
  // Texts are only exchanged if their checksums differ. All ranks have the same settings, with
  // different values.
  const std::string text = own.dump();
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  const auto hash = static_cast<std::int64_t>(checksum_of(std::as_bytes(std::span(bytes))));
  const auto summaries =
      gather<std::int64_t>(group, {hash, static_cast<std::int64_t>(bytes.size())});
  std::size_t longest = 0;
  bool is_same = true;
  for (std::size_t i = 0; i < summaries.size(); i += 2) {
    is_same = is_same && summaries[i] == hash;
    longest = std::max(longest, static_cast<std::size_t>(summaries[i + 1]));
  }
  if (is_same) return;

  bytes.resize(longest, ' ');
  const auto texts = gather(group, bytes);
  std::vector<Settings> ranks;
  for (std::size_t first = 0; first < texts.size(); first += longest) {
    const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(first);
    ranks.push_back(Settings::parse(begin, begin + static_cast<std::ptrdiff_t>(longest)));
  }
  throw Error(Errc::usage, "the workers have different settings: " + describe_differences(ranks) +
                               " (start all nodes with the same options and the same tokens)");
}

}  // namespace trainer::gpt2
