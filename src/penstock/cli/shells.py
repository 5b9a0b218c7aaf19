"""The scripts of the shells: each hands the words up to the cursor to `penstock completion --words`."""

_BASH = r"""# Completion of penstock for bash.
_penstock() {
    local line
    COMPREPLY=()
    # A name with a colon is several words to bash; what we take apart is the line as it stands.
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("${COMP_WORDS[0]}" completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _penstock penstock
"""

_ZSH = r"""#compdef penstock
# Completion of penstock for zsh.
_penstock() {
    local line value
    local -a described folders
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        if [[ $value == */ ]]; then
            folders+=("$value")
        elif [[ $line == *$'\t'* ]]; then
            described+=("${value//:/\\:}:${line#*$'\t'}")
        else
            described+=("${value//:/\\:}")
        fi
    done < <(${words[1]} completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#folders} )) && compadd -S '' -- "${folders[@]}"
    (( ${#described} )) && _describe -V penstock described
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _penstock "$@"
else
    compdef _penstock penstock
fi
"""

_FISH = r"""# Completion of penstock for fish.
function __penstock_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] completion --words $words[2..-1] 2>/dev/null
end
complete -c penstock -f -a '(__penstock_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
INSTALLED = {
    "bash": ".local/share/bash-completion/completions/penstock",
    "zsh": ".local/share/zsh/site-functions/_penstock",
    "fish": ".config/fish/completions/penstock.fish",
}
"""The place of each shell's script, below the home folder."""
