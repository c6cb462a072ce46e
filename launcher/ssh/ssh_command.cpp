#include "launcher/ssh/ssh_command.hpp"

#include "rendezvous/base/text.hpp"

namespace ddprun::ssh {

namespace {

// Exit code of ssh for its own failures.
constexpr int kSshFailed = 255;
// Exit codes of shells for a program that is missing or cannot be executed.
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

/// Removes ssh's name from its own messages.
std::string without_name(const std::string& line) {
  constexpr std::string_view kName = "ssh: ";
  return line.starts_with(kName) ? line.substr(kName.size()) : line;
}

}  // namespace

std::vector<std::string> ssh_command(const std::string& ssh, const SshSettings& settings,
                                     const std::string& destination) {
  std::vector<std::string> command = {ssh};
  // First, because ssh uses the first value of each setting.
  command.insert(command.end(), settings.options.begin(), settings.options.end());
  if (settings.port != 0) command.insert(command.end(), {"-p", std::to_string(settings.port)});
  if (!settings.user.empty()) command.insert(command.end(), {"-l", settings.user});
  for (const char* option : {// No prompts.
                             "BatchMode=yes", "ConnectTimeout=10",
                             // Detects the loss of an idle machine after a minute.
                             "ServerAliveInterval=15", "ServerAliveCountMax=4",
                             // A connection shared with other sessions would outlive this one.
                             "ControlMaster=no", "ClearAllForwardings=yes", "ForwardX11=no"}) {
    command.insert(command.end(), {"-o", option});
  }
  command.insert(command.end(), {"-T", "--", destination});
  command.push_back("exec " + quoted_for_shell(settings.program) + " " + kAgentCommand);
  return command;
}

std::string quoted_for_shell(const std::string& word) {
  return "'" + join(split(word, '\''), "'\\''") + "'";
}

std::string describe_no_answer(int exit_code, const std::string& last, const std::string& program) {
  const auto detail = last.empty() ? "" : ": " + without_name(last);
  if (exit_code == kNotFound || exit_code == kNotExecutable) {
    return program + " cannot be run there" + detail +
           "; set ssh.program in the file to the path of ddprun";
  }
  if (exit_code == kSshFailed) return "ssh could not connect" + detail;
  if (exit_code < 0) return "ssh was killed by signal " + std::to_string(-exit_code) + detail;
  return "ddprun there ended with exit code " + std::to_string(exit_code) + " before it responded" +
         detail;
}

}  // namespace ddprun::ssh
