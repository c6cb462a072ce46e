#include "launcher/cli/option_values.hpp"

#include "launcher/cli/cpu_list.hpp"
#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <utility>

namespace ddprun {

namespace {

// Above the size of any machine; prevents a typing error from creating a billion processes or map
// entries.
constexpr int kLocalRankMax = kLocalWorkersMax - 1;
constexpr int kRankMax = 99'999'999;
constexpr int kNodesMax = 1'000'000;

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int> number_within(std::string_view text, int min, int max) {
  const auto value = whole_number(text);
  if (!value || *value < min || *value > max) return std::nullopt;
  return value;
}

/// Parses numbers separated by commas. Returns them sorted, without duplicates.
Parsed<std::vector<int>> parse_list(const std::string& text, int max, const char* what) {
  std::vector<int> ranks;
  if (text.empty()) return ranks;
  for (const auto& part : split(text, ',')) {
    const auto rank = number_within(part, 0, max);
    if (!rank) return ValueProblem{std::string("is not a list of ") + what + " like 0,3"};
    ranks.push_back(*rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

/// Returns true for signals that cannot be handled or that ddprun uses itself.
bool is_reserved(int signal) {
  const std::vector<int> reserved = {SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS,
                                     SIGILL,  SIGFPE,  SIGABRT, SIGPIPE, SIGCONT};
  return std::find(reserved.begin(), reserved.end(), signal) != reserved.end();
}

bool is_ipv6(const std::string& host) {
  in6_addr ignored{};
  const auto without_zone = host.substr(0, host.find('%'));
  return ::inet_pton(AF_INET6, without_zone.c_str(), &ignored) == 1;
}

}  // namespace

Parsed<int> parse_integer(const std::string& text, int min, int max) {
  if (const auto value = number_within(text, min, max)) return *value;
  return ValueProblem{"is not an integer from " + std::to_string(min) + " to " +
                      std::to_string(max)};
}

Parsed<std::chrono::milliseconds> parse_seconds(const std::string& text,
                                                std::chrono::milliseconds min,
                                                std::chrono::milliseconds max) {
  using Seconds = std::chrono::duration<double>;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // The comparison rejects NaN, too.
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= Seconds(min).count() && value <= Seconds(max).count())) {
    char range[96];
    std::snprintf(range, sizeof range, "is not a number of seconds from %g to %.8g%s",
                  Seconds(min).count(), Seconds(max).count(), max == kYear ? " (a year)" : "");
    return ValueProblem{range};
  }
  return std::chrono::milliseconds(std::llround(value * 1000));
}

Parsed<HangTimeout> parse_hang_timeout(const std::string& text) {
  using Mode = HangTimeout::Mode;
  if (text == "auto") return HangTimeout{.mode = Mode::automatic};
  if (text == "off") return HangTimeout{.mode = Mode::off};
  const auto parsed = parse_seconds(text, std::chrono::seconds(1));
  if (const auto* problem = std::get_if<ValueProblem>(&parsed))
    return ValueProblem{problem->text + ", auto or off"};
  return HangTimeout{.mode = Mode::fixed, .time = std::get<std::chrono::milliseconds>(parsed)};
}

Parsed<bool> parse_switch(const std::string& text) {
  if (const auto value = whole_number(text)) return *value != 0;
  return ValueProblem{"is not an integer (0 for off, 1 for on)"};
}

Parsed<std::string> parse_word(const std::string& text, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) != words.end()) return text;
  if (words.size() == 1) return ValueProblem{"can only be " + words.front()};
  // The nearest word to a text as short as "no" may be the opposite.
  const auto nearest = text.size() < 3 ? std::string() : nearest_word(text, words);
  const auto others = std::vector<std::string>(words.begin(), words.end() - 1);
  return ValueProblem{"must be " + join(others, ", ") + " or " + words.back() +
                      (nearest.empty() ? "" : "; did you mean " + nearest + "?")};
}

Parsed<RendezvousBackend> parse_rendezvous_backend(const std::string& text) {
  using Backend = RendezvousBackend;
  return parse_choice<Backend>(text, {{"static", Backend::fixed},
                                      {"c10d", Backend::c10d},
                                      {"etcd", Backend::etcd},
                                      {"etcd-v2", Backend::etcd_v2}});
}

RendezvousBackend rendezvous_backend_or_default(const std::string& text) {
  const auto parsed = parse_rendezvous_backend(text);
  const auto* backend = std::get_if<RendezvousBackend>(&parsed);
  return backend == nullptr ? LaunchOptions().rdzv_backend : *backend;
}

Parsed<NodeRange> parse_node_range(const std::string& text) {
  const auto parts = split(text, ':');
  const auto min = number_within(parts.front(), 1, kNodesMax);
  const auto max = number_within(parts.back(), 1, kNodesMax);
  if (parts.size() > 2 || !min || !max) {
    return ValueProblem{"is neither a number of nodes nor MIN:MAX (from 1 to 1000000)"};
  }
  if (*min > *max) return ValueProblem{"has a minimum above its maximum"};
  return NodeRange{*min, *max};
}

Parsed<WorkerCount> parse_worker_count(const std::string& text) {
  using Kind = WorkerCount::Kind;
  if (text == "auto") return WorkerCount{Kind::automatic, 0};
  if (text == "cpu") return WorkerCount{Kind::cpu, 0};
  if (text == "gpu" || text == "cuda") return WorkerCount{Kind::gpu, 0};
  if (const auto number = number_within(text, 1, kLocalWorkersMax)) {
    return WorkerCount{Kind::number, *number};
  }
  return ValueProblem{"is neither a number from 1 to " + std::to_string(kLocalWorkersMax) +
                      " nor auto, cpu or gpu"};
}

Parsed<Affinity> parse_affinity(const std::string& text) {
  using Kind = Affinity::Kind;
  constexpr std::pair<std::string_view, Kind> kWords[] = {
      {"auto", Kind::automatic}, {"none", Kind::none},
      {"cores", Kind::cores},    {"exclusive", Kind::exclusive},
      {"node", Kind::node},      {"socket", Kind::socket},
      {"l3", Kind::l3}};
  for (const auto& [word, kind] : kWords) {
    if (text == word) return Affinity{.kind = kind};
  }
  Affinity affinity{.kind = Kind::list};
  for (const auto& list : split(text, ';')) {
    auto cpus = parse_cpu_list(list);
    if (cpus.empty()) {
      return ValueProblem{
          "is neither auto, none, cores, exclusive, node, socket, l3 nor a list of CPUs for each "
          "local rank like 0-7;8-15"};
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    affinity.lists.push_back(std::move(cpus));
  }
  return affinity;
}

Parsed<StreamChoice> parse_stream_choice(const std::string& text) {
  ValueProblem problem{
      "is neither 0 (none), 1 (stdout), 2 (stderr), 3 (both) nor a map like 0:3,1:1"};
  const bool is_like_a_program = text.find_first_of("./") != std::string::npos;
  if (is_like_a_program) problem.text += "; write the value before the program";
  StreamChoice choice;
  if (text.find(':') == std::string::npos) {
    const auto bits = number_within(text, 0, 3);
    if (!bits) return problem;
    choice.for_all = *bits;
    return choice;
  }
  for (const auto& entry : split(text, ',')) {
    const auto parts = split(entry, ':');
    if (parts.size() != 2) return problem;
    const auto local_rank = number_within(parts[0], 0, kLocalRankMax);
    const auto bits = number_within(parts[1], 0, 3);
    if (!local_rank || !bits) return problem;
    if (!choice.by_local_rank.emplace(*local_rank, *bits).second) {
      return ValueProblem{"names local rank " + parts[0] + " twice"};
    }
  }
  return choice;
}

Parsed<std::vector<int>> parse_local_ranks(const std::string& text) {
  return parse_list(text, kLocalRankMax, "local ranks");
}

Parsed<std::vector<int>> parse_ranks(const std::string& text) {
  return parse_list(text, kRankMax, "ranks");
}

Parsed<std::vector<std::string>> parse_filters(const std::string& text) {
  std::vector<std::string> filters{""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      filters.back() += text[i];
    } else if (text.substr(i + 1, 1) == ",") {
      filters.back() += text[i++];
    } else {
      filters.emplace_back();
    }
  }
  // An empty text would match every line, which "a," or "" do not intend.
  std::erase(filters, "");
  if (filters.size() > kFiltersMax) {
    return ValueProblem{"has more than " + std::to_string(kFiltersMax) + " texts"};
  }
  return filters;
}

Parsed<std::vector<std::string>> parse_modules(const std::string& text) {
  std::vector<std::string> modules;
  for (const auto& module : split(text, ',')) {
    for (const auto& word : split(module, '.')) {
      const bool is_name = !word.empty() &&
                           std::isdigit(static_cast<unsigned char>(word.front())) == 0 &&
                           std::all_of(word.begin(), word.end(), [](unsigned char letter) {
                             return std::isalnum(letter) != 0 || letter == '_' || letter > 127;
                           });
      if (!is_name) return ValueProblem{"is neither auto nor names of modules like torch,numpy"};
    }
    modules.emplace_back(module);
  }
  if (modules.size() > kModulesMax) {
    return ValueProblem{"has more than " + std::to_string(kModulesMax) + " modules"};
  }
  if (modules.size() > 1 && std::find(modules.begin(), modules.end(), "auto") != modules.end()) {
    return ValueProblem{"auto excludes other modules; write either auto or the names of all"};
  }
  return modules;
}

Parsed<StdinChoice> parse_stdin_worker(const std::string& text) {
  if (text == "auto") return StdinChoice{};
  if (text == "none") return StdinChoice{.is_automatic = false};
  const auto rank = number_within(text, 0, kRankMax);
  if (rank) return StdinChoice{.is_automatic = false, .rank = rank};
  return ValueProblem{"is neither a rank like 0 nor auto or none"};
}

Parsed<std::vector<int>> parse_signals(const std::string& text) {
  std::vector<int> signals;
  for (const auto& name : split(text, ',')) {
    const auto number = signal_number(name);
    if (!number) {
      const auto nearest = nearest_word(name, signal_names());
      return ValueProblem{"names '" + name + "', which is not a signal" +
                          (nearest.empty() ? "" : "; did you mean " + nearest + "?")};
    }
    if (is_reserved(*number)) {
      return ValueProblem{"names " + signal_name(*number) + ", which cannot be handled"};
    }
    if (std::find(signals.begin(), signals.end(), *number) == signals.end()) {
      signals.push_back(*number);
    }
  }
  return signals;
}

Parsed<RendezvousEndpoint> parse_endpoint(const std::string& text) {
  const auto colons = std::count(text.begin(), text.end(), ':');
  std::string host = text;
  std::string port;
  if (!text.empty() && text.front() == '[') {
    const auto end = text.find(']');
    if (end == std::string::npos) return ValueProblem{"has an unmatched '['"};
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!port.empty() && port.front() != ':') return ValueProblem{"is not [address]:port"};
  } else if (colons == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':'));
  } else if (const auto last = text.rfind(':'); colons > 1 && !is_ipv6(text)) {
    const auto address = text.substr(0, last);
    if (is_ipv6(address))
      return ValueProblem{"has no brackets around its address; write [" + address + "]" +
                          text.substr(last)};
  }
  if (host.empty() && !text.empty()) return ValueProblem{"names no host"};
  if (text.find_first_of("/ \t@") != std::string::npos)
    return ValueProblem{"is not HOST:PORT: no scheme, path, user or space is allowed"};
  if (host.find(':') != std::string::npos && !is_ipv6(host))
    return ValueProblem{"is neither HOST:PORT nor an IPv6 address like [fd00::1]:29400"};
  if (port.empty()) return RendezvousEndpoint{host};
  const auto number = number_within(std::string_view(port).substr(1), 0, 65535);
  if (!number) return ValueProblem{"has a port that is not an integer from 0 to 65535"};
  return RendezvousEndpoint{host, static_cast<std::uint16_t>(*number), *number == 0};
}

Parsed<RendezvousEndpoint> parse_endpoints(const std::string& text) {
  std::vector<RendezvousEndpoint> endpoints;
  for (const auto& part : split(text, ',')) {
    auto endpoint = parse_endpoint(part);
    if (const auto* problem = std::get_if<ValueProblem>(&endpoint)) return *problem;
    if (part.empty() && !text.empty()) return ValueProblem{"names no host between its commas"};
    endpoints.push_back(std::get<RendezvousEndpoint>(std::move(endpoint)));
  }
  auto first = endpoints.front();
  first.others.assign(endpoints.begin() + 1, endpoints.end());
  return first;
}

Parsed<std::map<std::string, std::string>> parse_key_values(const std::string& text) {
  std::string_view inside = text;
  if (inside.size() >= 2 && (inside.front() == '\'' || inside.front() == '"') &&
      inside.back() == inside.front()) {
    inside = inside.substr(1, inside.size() - 2);
  }
  std::map<std::string, std::string> values;
  if (inside.empty()) return values;
  for (const auto& entry : split(inside, ',')) {
    const auto equals = entry.find('=');
    if (equals == 0 || entry.empty()) {
      return ValueProblem{"is not a list like key=value,key=value: '" + entry + "'"};
    }
    if (equals == std::string::npos) {
      const bool is_time = entry.ends_with("timeout");
      return ValueProblem{"'" + entry + "' has no value; write " + entry +
                          (is_time ? "=SECONDS" : "=VALUE")};
    }
    if (!values.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second) {
      return ValueProblem{"names '" + entry.substr(0, equals) + "' twice"};
    }
  }
  return values;
}

}  // namespace ddprun
