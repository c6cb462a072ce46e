// Parsers of option values from the command line, environment variables and files. Each returns the
// value or the problem with the text. None throws.
#pragma once

#include "launcher/cli/launch_options.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

/// Why a text is not a valid value, for example "is not an integer from 0 to 65535".
struct ValueProblem {
  std::string text;
};

template <typename T>
using Parsed = std::variant<T, ValueProblem>;

inline constexpr std::chrono::seconds kYear{365 * 24 * 3600};

Parsed<int> parse_integer(const std::string& text, int min, int max);

/// Seconds as a decimal number.
Parsed<std::chrono::milliseconds> parse_seconds(
    const std::string& text, std::chrono::milliseconds min = std::chrono::milliseconds(0),
    std::chrono::milliseconds max = kYear);

/// A flag in an environment variable: an integer, non-zero means on.
Parsed<bool> parse_switch(const std::string& text);

/// Returns the text if it is one of the words. The problem suggests the nearest word.
Parsed<std::string> parse_word(const std::string& text, const std::vector<std::string>& words);

/// Returns the value of the word, or the problem.
template <typename T>
Parsed<T> parse_choice(const std::string& text,
                       std::initializer_list<std::pair<const char*, T>> choices) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) {
    if (text == word) return value;
    words.emplace_back(word);
  }
  return std::get<ValueProblem>(parse_word(text, words));
}

/// "static", "c10d", "etcd" or "etcd-v2".
Parsed<RendezvousBackend> parse_rendezvous_backend(const std::string& text);
/// Returns the default for any other text, which is reported elsewhere.
RendezvousBackend rendezvous_backend_or_default(const std::string& text);

/// "N" or "MIN:MAX".
Parsed<NodeRange> parse_node_range(const std::string& text);

/// "N", "auto", "cpu" or "gpu".
Parsed<WorkerCount> parse_worker_count(const std::string& text);

/// A word such as "cores", or lists of CPUs by local rank: "0-7;8-15".
Parsed<Affinity> parse_affinity(const std::string& text);

/// "0" to "3", or a map from local rank to that: "0:3,12:1".
Parsed<StreamChoice> parse_stream_choice(const std::string& text);

/// "0,3,12"; empty text gives none.
Parsed<std::vector<int>> parse_local_ranks(const std::string& text);
Parsed<std::vector<int>> parse_ranks(const std::string& text);

/// Maximum number of texts of a filter, since each line is searched for all of them.
inline constexpr std::size_t kFiltersMax = 64;

/// "text,text"; two commas stand for a comma in a text.
Parsed<std::vector<std::string>> parse_filters(const std::string& text);

/// A rank, or "none".
Parsed<StdinChoice> parse_stdin_worker(const std::string& text);

/// Text with fields like ${rank}; "none" and empty text give no prefix.
Parsed<PrefixTemplate> parse_prefix_template(const std::string& text);

/// "SIGTERM,INT"; only signals that can be handled and that ddprun does not use itself.
Parsed<std::vector<int>> parse_signals(const std::string& text);

/// "host", "host:port", "[v6]:port" or a bare IPv6 address.
Parsed<RendezvousEndpoint> parse_endpoint(const std::string& text);

/// Endpoints separated by commas.
Parsed<RendezvousEndpoint> parse_endpoints(const std::string& text);

/// "key=value,key=value"; quotes around the whole text, which scripts often leave, are removed.
Parsed<std::map<std::string, std::string>> parse_key_values(const std::string& text);

}  // namespace ddprun
