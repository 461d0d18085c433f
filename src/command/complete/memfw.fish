# memfw in fish: memfw completions fish > ~/.config/fish/completions/memfw.fish
function __memfw_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    command memfw complete fish (count $words) -- $words "$current" 2> /dev/null
end
complete --command memfw --no-files --keep-order --arguments '(__memfw_complete)'
